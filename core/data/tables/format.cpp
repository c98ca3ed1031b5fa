// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/kind.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "core/data/exclude.h"
#include "core/data/file_pattern.h"
#include "core/data/formats.h"
#include "core/data/tables/keys.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/repetition.h"
#include "core/data/tables/row_names.h"
#include "core/data/tables/row_tokens.h"
#include "core/data/tables/source.h"
#include "core/data/tables/split.h"
#include "core/data/tokens/formats.h"

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
    const auto known = excluded_.find({table, stored});
    if (known != excluded_.end()) return known->second;
    const RowNames names(table);
    std::vector<int64_t> rows = read_excluded(
        section.exclude->resolved, {.split = stored,
                                    .size = table->rows,
                                    .has_val_file = !section.divides_train(),
                                    .find = [&](std::string_view name) { return names.find(name); },
                                    .expected = names.expected()});
    return excluded_.emplace(std::pair(table, stored), std::move(rows)).first->second;
  }
  /// The tokens of its texts, by the section's tokenizer.
  std::shared_ptr<const RowTokens> tokens(const std::shared_ptr<const Table>& table,
                                          const Tokenizer& tokenizer, int64_t threads) {
    std::shared_ptr<const RowTokens>& known = tokens_[table];
    if (!known) known = std::make_shared<const RowTokens>(tokenize_rows(*table, tokenizer, threads));
    return known;
  }
  void clear() {
    all_.clear();
    prepared_.clear();
    excluded_.clear();
    tokens_.clear();
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
  std::map<std::shared_ptr<const Table>, std::shared_ptr<const RowTokens>> tokens_;
};

/// What a split is made of.
struct SplitRows {
  std::shared_ptr<const Table> table;
  std::shared_ptr<const TablePreparation> preparation;
  TableSamples samples;
};

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

  std::vector<InputKind> kinds() const override {
    return {InputKind::features, InputKind::series, InputKind::text};
  }
  bool takes_groups() const override { return true; }
  bool gives_label_sets() const override { return true; }

  std::vector<std::string> files(const std::string& path, Split) const override {
    return files_of_pattern(path);
  }
  std::vector<std::string> missing(const std::string& path, Split split) const override {
    return files(path, split).empty() ? std::vector{path} : std::vector<std::string>{};
  }

  void check(InputKind kind, const OriginOf& origin_of, Diagnostics& diagnostics) const override {
    keys_.check(kind, origin_of, diagnostics);
    for (const char* key :
         {"data.table", "data.table.target", "data.table.ignore", "data.table.categorical",
          "data.table.window.time", "data.table.window.by", "data.table.text", "data.split_by"})
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
    return source_of(std::move(split));
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
    TableSamples samples = named_samples(*table, want, *trained_);
    add_tokens(table, section, request, samples);
    return table_source(table, trained_, std::move(samples));
  }

  SourceInfo peek(const DataSection& section, const SourceRequest& request) const override {
    const std::unique_ptr<TableSource> source = source_of(split_rows(section, request));
    const TablePreparation& preparation = source->how();
    SourceInfo info{.size = source->size(),
                    .shape = source->sample_shape(),
                    .classes = std::nullopt,
                    .resident_bytes = source->resident_bytes(),
                    .has_label_sets = request.wants_label_sets,
                    .is_shared = section.divides_train()};
    if (!preparation.classes.empty()) info.classes = source->classes();
    info.categories = static_cast<int64_t>(preparation.categories.size());
    info.category_rows = preparation.category_rows();
    if (request.split == Split::val) info.targets = target_spread(*source);
    if (request.wants_labels && !preparation.label.empty()) {
      for (int64_t i = 0; i < source->size(); ++i) info.labels.push_back(source->label(i));
    }
    const bool has_own_file = request.split == Split::train || !section.divides_train();
    if (has_own_file && source->table().without_target > 0)
      info.warning = fmt::format("{}: {} rows have no target and are left out",
                                 request.split == Split::train ? section.train.written : section.val->written,
                                 source->table().without_target);
    if (source->samples().tokens) info.token_ids = tokenizer_of(section)->vocabulary();
    if (source->samples().windows) info.summary = summary_of(*source, request.split);
    return info;
  }

 private:
  static std::unique_ptr<TableSource> source_of(SplitRows split) {
    return table_source(std::move(split.table), std::move(split.preparation), std::move(split.samples));
  }

  static std::string summary_of(const TableSource& source, Split split) {
    const Windows& windows = *source.samples().windows;
    const std::string counts = fmt::format("{}: {} windows of {} rows, {} apart{}",
                                           split == Split::train ? "training" : "validation", source.size(),
                                           windows.length, windows.step.text(), windows.left_out_text());
    const std::string repetition = split == Split::val ? repetition_text(source) : "";
    return repetition.empty() ? counts : fmt::format("{}; repeating the last value: {}", counts, repetition);
  }

  void add_tokens(const std::shared_ptr<const Table>& table, const DataSection& section,
                  const SourceRequest& request, TableSamples& samples) const {
    if (!table->columns.text) return;
    samples.tokens = known_.tokens(table, *tokenizer_of(section), request.threads);
    samples.length = request.network_shape[0];
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
    const auto choice = [&](Split part) {
      return divides ? section.split_choice(part, request.seed) : SplitChoice{};
    };
    SplitRows split{.table = nullptr, .preparation = trained_, .samples = {}};
    std::vector<int64_t> excluded;
    if (request.split == Split::train || divides || !trained_) {
      split.table = known_.read(files_of_pattern(section.path(Split::train)), want, request.threads);
      excluded = known_.excluded(split.table, section, Split::train);
      if (!trained_) {
        const auto training = [&] {
          return without_excluded(split_rows_of(*split.table, want, choice(Split::train)), excluded, section,
                                  Split::train);
        };
        split.preparation = known_.prepare(split.table, request.seed, training, want, request.threads);
      }
    }
    if (request.split == Split::val && !divides) {
      // Validation in files of its own is read as training's.
      want.trained = split.preparation;
      split.table = known_.read(files_of_pattern(section.path(Split::val)), want, request.threads);
      excluded = known_.excluded(split.table, section, Split::val);
    }
    split.samples = split_samples(*split.table, want, *split.preparation, choice(request.split));
    split.samples.rows = without_excluded(split.samples.rows, excluded, section, request.split);
    split.samples.excluded = std::move(excluded);
    add_tokens(split.table, section, request, split.samples);
    return split;
  }

  TableKeys keys_;
  mutable std::map<std::string, Origin> origins_;
  mutable std::shared_ptr<const TablePreparation> trained_;  ///< of weights; null in training
  mutable KnownTables known_;
};

}  // namespace

Registered<DataFormat> table_format() {
  return {"table", "CSV or TSV files with a header, perhaps gzip, in one file or a pattern as for tokens",
          [] { return std::make_unique<TableFormat>(); }};
}

}  // namespace trainer
