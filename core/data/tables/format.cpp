// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/kind.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/base/printable.h"
#include "core/data/exclude.h"
#include "core/data/file_pattern.h"
#include "core/data/formats.h"
#include "core/data/subset.h"
#include "core/data/tables/keys.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/row_names.h"
#include "core/data/tables/source.h"

namespace trainer {
namespace {

/// Tables that were read, each once: planning and training open the same. For one thread.
class KnownTables {
 public:
  std::shared_ptr<const Table> read(const std::vector<std::string>& files, const TableRequest& request,
                                    int64_t threads) {
    for (const Known& known : all_) {
      if (known.files == files && known.request.reads_as(request)) return known.table;
    }
    return all_.emplace_back(Known{files, request, read_table(files, request, threads)}).table;
  }
  /// The preparation by the rows of training, which the run's seed chooses.
  std::shared_ptr<const TablePreparation> prepare(const std::shared_ptr<const Table>& table, uint64_t seed,
                                                  const std::function<std::vector<int64_t>()>& rows,
                                                  const TableRequest& request, int64_t threads) {
    for (const Prepared& known : prepared_) {
      if (known.table == table && known.seed == seed) return known.preparation;
    }
    auto preparation =
        std::make_shared<const TablePreparation>(prepare_table(*table, rows(), request, threads));
    prepared_.push_back({table, seed, preparation});
    return preparation;
  }
  /// The rows that data.exclude names in the files of a split.
  std::vector<int64_t> excluded(const std::shared_ptr<const Table>& table, const DataSection& section,
                                Split stored) {
    if (!section.exclude) return {};
    const auto [at, is_new] = excluded_.try_emplace({table, stored});
    if (!is_new) return at->second;
    const RowNames names(table);
    at->second = read_excluded(section.exclude->resolved,
                               {.split = stored,
                                .size = table->rows,
                                .has_val_file = !section.divides_train(),
                                .find = [&](std::string_view name) { return names.find(name); },
                                .expected = names.expected()});
    return at->second;
  }
  void clear() {
    all_.clear();
    prepared_.clear();
    excluded_.clear();
  }

 private:
  struct Prepared {
    std::shared_ptr<const Table> table;
    uint64_t seed;
    std::shared_ptr<const TablePreparation> preparation;
  };
  struct Known {
    std::vector<std::string> files;
    TableRequest request;
    std::shared_ptr<const Table> table;
  };
  std::vector<Known> all_;
  std::vector<Prepared> prepared_;
  std::map<std::pair<std::shared_ptr<const Table>, Split>, std::vector<int64_t>> excluded_;
};

/// What a split is made of.
struct SplitRows {
  std::shared_ptr<const Table> table;
  std::shared_ptr<const TablePreparation> preparation;
  std::vector<int64_t> rows, excluded;

  /// Each row has a number, whether it is excluded or not.
  int64_t bytes() const {
    return table->bytes() + static_cast<int64_t>((rows.size() + excluded.size()) * sizeof rows[0]);
  }
};

std::vector<int64_t> all_rows(const Table& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<int32_t> codes_of(const Table& table, std::optional<size_t> column) {
  std::vector<int32_t> codes;
  if (!column) return codes;
  for (int64_t row = 0; row < table.rows; ++row)
    codes.push_back(table.codes_of(row)[table.columns.all[*column].place]);
  return codes;
}

/// The classes of one column, and those of columns of 0 and 1, take their shares.
std::vector<int64_t> chosen_rows(const Table& table, const TableRequest& wanted, const SplitChoice& choice) {
  SplitBy by{.labels = codes_of(table, table.columns.label), .groups = codes_of(table, table.columns.group)};
  for (int64_t row = 0; wanted.targets == TargetUse::label_sets && row < table.rows; ++row) {
    std::vector<int32_t> set;
    const std::span<const float> targets = table.numbers_of(row).subspan(table.columns.numbers.size());
    for (size_t c = 0; c < targets.size(); ++c)
      if (targets[c] != 0) set.push_back(static_cast<int32_t>(c));
    by.label_sets.add(set);
  }
  return chosen_samples(table.rows, std::move(by), choice);
}

std::vector<int64_t> without_excluded(const std::vector<int64_t>& rows, const std::vector<int64_t>& excluded,
                                      const DataSection& section, Split split) {
  return section.exclude ? left_of(rows, excluded, section.exclude->resolved, split) : rows;
}

class TableFormat final : public DataFormat {
 public:
  void declare(Fields& fields) override {
    fields
        .section("table", "columns of format table, and what is done with their values",
                 [this](Fields& section) { keys_.declare(section); })
        .absent_if_unset();
  }

  std::vector<InputKind> kinds() const override { return {InputKind::features}; }
  bool takes_groups() const override { return true; }
  bool gives_label_sets() const override { return true; }

  std::vector<std::string> files(const std::string& path, Split) const override {
    return files_of_pattern(path);
  }
  std::vector<std::string> missing(const std::string& path, Split split) const override {
    return files(path, split).empty() ? std::vector{path} : std::vector<std::string>{};
  }

  void check(const OriginOf& origin_of, Diagnostics& diagnostics) const override {
    if (keys_.target.empty())
      diagnostics.error(origin_of("data.table"), "missing key 'target', the column to predict");
    for (const char* key :
         {"data.table", "data.table.target", "data.table.ignore", "data.table.categorical", "data.split_by"})
      origins_[key] = origin_of(key);
  }

  void use_preparation(const std::string& stored) const override {
    std::optional<TablePreparation> found = parse_preparation(stored);
    if (!found) return;
    trained_ = std::make_shared<const TablePreparation>(std::move(*found));
    known_.clear();
  }

  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const override {
    SplitRows split = split_rows(section, request);
    return table_rows(std::move(split.table), std::move(split.preparation), std::move(split.rows),
                      std::move(split.excluded));
  }

  std::unique_ptr<DataSource> open_named(const NamedFiles& files, const DataSection& section,
                                         const SourceRequest& request) const override {
    if (!trained_)
      throw Error(ExitCode::data,
                  "the weights do not say how rows are prepared: they come from another program; train a "
                  "network with data.format=table");
    TableRequest want = wanted(section, request);
    want.targets = TargetUse::none;
    want.split_by.clear();
    want.id = files.id;
    const auto table = read_table(files.paths, want, request.threads);
    return table_rows(table, trained_, all_rows(*table));
  }

  SourceInfo peek(const DataSection& section, const SourceRequest& request) const override {
    const SplitRows split = split_rows(section, request);
    SourceInfo info{.size = static_cast<int64_t>(split.rows.size()),
                    .shape = {static_cast<int64_t>(split.preparation->numbers.size())},
                    .classes = std::nullopt,
                    .resident_bytes = split.bytes(),
                    .has_label_sets = request.wants_label_sets,
                    .is_shared = section.divides_train()};
    if (!split.preparation->classes.empty())
      info.classes = static_cast<int64_t>(split.preparation->classes.size());
    info.categories = static_cast<int64_t>(split.preparation->categories.size());
    info.category_rows = split.preparation->category_rows();
    if (request.split == Split::val)
      info.targets = target_spread(*split.table, *split.preparation, split.rows);
    if (request.wants_labels && !split.preparation->label.empty()) info.labels = labels_of(split);
    if (request.split == Split::train && split.table->without_target > 0)
      info.warning = fmt::format("{}: {} rows have no target and are left out", section.train.written,
                                 split.table->without_target);
    return info;
  }

 private:
  static std::vector<int32_t> labels_of(const SplitRows& split) {
    const auto source = table_rows(split.table, split.preparation, split.rows);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < source->size(); ++i) labels.push_back(source->label(i));
    return labels;
  }

  TableRequest wanted(const DataSection& section, const SourceRequest& request) const {
    return {.keys = keys_,
            .split_by = section.split_by.value_or(""),
            .targets = request.wants_numbers          ? TargetUse::numbers
                       : request.wants_label_sets     ? TargetUse::label_sets
                       : request.network_classes == 0 ? TargetUse::none
                                                      : TargetUse::classes,
            .trained = trained_,
            .origin_of = [this](const std::string& key) {
              const auto found = origins_.find(key);
              return found == origins_.end() ? Origin{{}, key} : found->second;
            }};
  }

  SplitRows split_rows(const DataSection& section, const SourceRequest& request) const {
    TableRequest want = wanted(section, request);
    const bool divides = section.divides_train();
    SplitRows split{.table = nullptr, .preparation = trained_, .rows = {}, .excluded = {}};
    if (request.split == Split::train || divides || !trained_) {
      split.table = known_.read(files_of_pattern(section.path(Split::train)), want, request.threads);
      split.excluded = known_.excluded(split.table, section, Split::train);
      const auto rows_of = [&](Split part) {
        const std::vector<int64_t> rows =
            divides ? chosen_rows(*split.table, want, section.split_choice(part, request.seed))
                    : all_rows(*split.table);
        return without_excluded(rows, split.excluded, section, part);
      };
      split.rows = rows_of(request.split);
      if (!trained_) {
        const auto training = [&] {
          return request.split == Split::train ? split.rows : rows_of(Split::train);
        };
        split.preparation = known_.prepare(split.table, request.seed, training, want, request.threads);
      }
    }
    if (request.split == Split::train || divides) return split;
    // Validation in files of its own is read as training's.
    want.trained = split.preparation;
    split.table = known_.read(files_of_pattern(section.path(Split::val)), want, request.threads);
    split.excluded = known_.excluded(split.table, section, Split::val);
    split.rows = without_excluded(all_rows(*split.table), split.excluded, section, Split::val);
    return split;
  }

  TableKeys keys_;
  mutable std::map<std::string, Origin> origins_;
  mutable std::shared_ptr<const TablePreparation> trained_;  ///< of weights; null in training
  mutable KnownTables known_;
};

}  // namespace

void FeatureKind::check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                        Diagnostics& diagnostics) const {
  if (network_shape.size() != 1) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [columns], the columns of numbers of data.format {}, got {} numbers",
                    section.format, network_shape.size()));
  }
}

Registered<DataFormat> table_format() {
  return {"table", "CSV or TSV files with a header, perhaps gzip, in one file or a pattern as for tokens",
          [] { return std::make_unique<TableFormat>(); }};
}

}  // namespace trainer
