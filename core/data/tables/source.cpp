// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/exclude.h"
#include "core/data/row_reader.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

/// The number of each text of a column among known ones; nothing for others.
std::vector<std::optional<int32_t>> places_in(const std::vector<std::string>& texts,
                                              const std::vector<std::string>& known) {
  std::unordered_map<std::string_view, int32_t> numbers;
  for (const std::string& text : known) numbers.emplace(text, static_cast<int32_t>(numbers.size()));
  std::vector<std::optional<int32_t>> places;
  for (const std::string& text : texts) {
    const auto found = numbers.find(text);
    places.push_back(found == numbers.end() ? std::nullopt : std::optional(found->second));
  }
  return places;
}

class PreparedRows final : public TableSource {
 public:
  PreparedRows(std::shared_ptr<const Table> table, std::shared_ptr<const TablePreparation> preparation,
               TableSamples samples)
      : table_(std::move(table)),
        names_(table_),
        preparation_(std::move(preparation)),
        samples_(std::move(samples)) {
    const TableColumns& columns = table_->columns;
    int32_t first = 0;
    for (size_t k = 0; k < preparation_->categories.size(); ++k) {
      const std::vector<std::string>& known = preparation_->categories[k].texts;
      std::vector<int32_t>& places = categories_.emplace_back();
      places.push_back(first);  // of what is missing
      for (const auto& place : places_in(table_->words[k], known))
        places.push_back(place ? first + 1 + *place : first);
      first += 1 + static_cast<int32_t>(known.size());
    }
    if (columns.label)
      classes_ = places_in(table_->words[columns.all[*columns.label].place], preparation_->classes);
    require_known_classes();
    if (preparation_->refuses_missing) require_numbers();
  }

  int64_t size() const override { return samples_.size(); }
  Shape sample_shape() const override {
    if (samples_.tokens) return {samples_.length};
    const auto columns = static_cast<int64_t>(preparation_->numbers.size());
    return samples_.windows ? Shape{samples_.windows->length, columns} : Shape{columns};
  }
  int64_t classes() const override { return static_cast<int64_t>(preparation_->classes.size()); }
  int64_t resident_bytes() const override {
    const size_t windows = samples_.windows ? samples_.windows->first.size() : 0;
    const size_t numbers = samples_.rows.size() + samples_.excluded.size() + windows;
    return table_->bytes() + (samples_.tokens ? samples_.tokens->bytes() : 0) +
           static_cast<int64_t>(numbers * sizeof(int64_t));
  }
  void check_labels(const AllowedLabels& allowed) const override {
    if (classes() <= allowed.classes) return;
    throw Error(ExitCode::data, fmt::format("{}: expected at most {} classes, found {} in column '{}'",
                                            one_line(table_->files.front()), allowed.classes, classes(),
                                            one_line(preparation_->label)));
  }
  std::vector<std::string> class_names() const override { return preparation_->classes; }
  std::string preparation() const override { return to_json(*preparation_); }
  const Table& table() const override { return *table_; }
  const RowNames& row_names() const override { return names_; }
  const TableSamples& samples() const override { return samples_; }
  const TablePreparation& how() const override { return *preparation_; }

  Fingerprint fingerprint() const override {
    Checksum contents;
    contents.add(std::as_bytes(std::span(table_->numbers)));
    contents.add(std::as_bytes(std::span(table_->codes)));
    contents.add(std::as_bytes(std::span(table_->times)));
    if (samples_.tokens) {
      contents.add(std::as_bytes(std::span(samples_.tokens->tokens)));
      contents.add(std::as_bytes(std::span(samples_.tokens->ends)));
    }
    for (const std::vector<std::string>& column : table_->words) {
      for (const std::string& word : column)
        contents.add(std::as_bytes(std::span(word.c_str(), word.size() + 1)));
    }
    Fingerprint found = {{fingerprint_name::kSamples, std::to_string(table_->rows)},
                         {fingerprint_name::kContents, fmt::format("{:016x}", contents.value())}};
    leave_out(samples_.excluded, table_->rows, found);
    return found;
  }

  std::unique_ptr<RowReader> rows(const RowRequest& request) const override;

  void read_numbers(int64_t sample, float* into) const {
    const std::vector<TablePreparation::Number>& numbers = preparation_->numbers;
    for (int64_t row = samples_.first_row(sample); row <= samples_.last_row(sample);
         ++row, into += numbers.size()) {
      const std::span<const float> values = table_->numbers_of(row);
      for (size_t i = 0; i < numbers.size(); ++i) into[i] = numbers[i].of(values[i]);
    }
  }
  void read_categories(int64_t sample, int32_t* into) const {
    const std::span<const int32_t> row = table_->codes_of(samples_.last_row(sample));
    for (size_t k = 0; k < categories_.size(); ++k)
      into[k] = categories_[k][static_cast<size_t>(int64_t{row[k]} + 1)];
  }
  /// Empty, of rows that have none.
  PaddedText text(int64_t sample) const {
    if (!samples_.tokens) return {};
    return {.tokens = (*samples_.tokens)[samples_.first_row(sample)], .length = samples_.length};
  }
  std::vector<std::pair<std::string, std::string>> names(int64_t sample) const override {
    std::vector<std::pair<std::string, std::string>> found;
    const int64_t row = samples_.last_row(sample);
    if (!table_->ids.empty()) found.emplace_back("id", table_->ids[static_cast<size_t>(row)]);
    if (samples_.windows)
      found.emplace_back("time",
                         time_text(table_->times[static_cast<size_t>(row)], table_->columns.time_form));
    if (samples_.windows && !table_->columns.series.empty())
      found.emplace_back("by", table_->series_name(row));
    return found;
  }
  int32_t label(int64_t sample) const override {
    if (classes_.empty()) return 0;
    return classes_[static_cast<size_t>(table_->codes_of(samples_.target_row(sample))[label_place()])]
        .value();
  }
  /// Numbers in units of their deviation, or sets of labels as they are.
  void read_targets(int64_t sample, float* into) const {
    const TableColumns& columns = table_->columns;
    const std::span<const float> row =
        table_->numbers_of(samples_.target_row(sample)).subspan(columns.numbers.size());
    for (size_t c = 0; c < row.size(); ++c) {
      const bool is_number = !preparation_->targets.empty();
      into[c] = !is_number ? row[c]
                           : static_cast<float>((row[c] - preparation_->targets[c].mean) /
                                                preparation_->targets[c].deviation);
    }
  }
  size_t targets() const { return table_->columns.targets.size(); }

 private:
  size_t label_place() const { return table_->columns.all[*table_->columns.label].place; }

  void require_known_classes() const {
    if (classes_.empty() ||
        std::ranges::all_of(classes_, [](const auto& place) { return place.has_value(); }))
      return;
    for (int64_t sample = 0; sample < size(); ++sample) {
      const int64_t row = samples_.target_row(sample);
      const auto code = static_cast<size_t>(table_->codes_of(row)[label_place()]);
      if (classes_[code]) continue;
      throw Error(ExitCode::data,
                  fmt::format("{}: column '{}': no row of training has the class '{:.40}'; add one, or leave "
                              "this row out",
                              table_->place_of(row), one_line(preparation_->label),
                              one_line(table_->words[label_place()][code])));
    }
  }

  void require_numbers() const {
    for (const int64_t row : samples_.rows) {
      const auto values = table_->numbers_of(row).first(preparation_->numbers.size());
      const auto missing = std::ranges::find_if(values, [](float value) { return value != value; });
      if (missing == values.end()) continue;
      const std::string& name = preparation_->numbers[static_cast<size_t>(missing - values.begin())].name;
      throw Error(
          ExitCode::data,
          fmt::format("{}: column '{}': expected a number, as data.table.missing is error, found none",
                      table_->place_of(row), one_line(name)));
    }
  }

  std::shared_ptr<const Table> table_;
  RowNames names_;
  std::shared_ptr<const TablePreparation> preparation_;
  TableSamples samples_;
  std::vector<std::vector<int32_t>> categories_;  ///< of each column: the place of each code plus one
  std::vector<std::optional<int32_t>> classes_;   ///< of each code of the label's column
};

class PreparedReader final : public RowReader {
 public:
  PreparedReader(const PreparedRows& source, const BatchInputs& inputs)
      : source_(source),
        features_(find_input(inputs, input_name::kFeatures)),
        categories_(find_input(inputs, input_name::kCategories)),
        tokens_(find_input(inputs, input_name::kTokens)),
        document_start_(find_input(inputs, input_name::kDocumentStart)),
        token_weights_(find_input(inputs, input_name::kTokenWeights)),
        labels_(find_input(inputs, input_name::kLabels)),
        targets_(find_input(inputs, input_name::kTargets)) {}

  std::unique_ptr<RowMemory> make_memory() const override { return std::make_unique<RowMemory>(); }

  void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory&) const override {
    if (features_) source_.read_numbers(place.sample, batch.row<float>(*features_, row));
    if (categories_) source_.read_categories(place.sample, batch.row<int32_t>(*categories_, row));
    const PaddedText text = source_.text(place.sample);
    if (tokens_) text.put_tokens(batch.row<int32_t>(*tokens_, row));
    if (document_start_) text.put_starts(batch.row<int32_t>(*document_start_, row));
    if (token_weights_) text.put_weights(batch.row<float>(*token_weights_, row));
    if (labels_) *batch.row<int32_t>(*labels_, row) = source_.label(place.sample);
    if (targets_) source_.read_targets(place.sample, batch.row<float>(*targets_, row));
  }

 private:
  const PreparedRows& source_;
  std::optional<size_t> features_, categories_, tokens_, document_start_, token_weights_, labels_, targets_;
};

/// Throws Error (exit 78) at `origin` if the network wants another number of something than the table has.
void require_count(const Origin& origin, int64_t wanted, size_t found, const std::string& what,
                   const std::string& key) {
  if (wanted == static_cast<int64_t>(found)) return;
  fail_at(origin,
          fmt::format("expected {}, the table's {}, got {}; set {} to {}", found, what, wanted, key, found));
}

std::unique_ptr<RowReader> PreparedRows::rows(const RowRequest& request) const {
  const auto row_of_input = [&](const char* name) -> int64_t {
    const auto input = find_input(request.inputs, name);
    return input ? numel(request.inputs[*input].row) : -1;
  };
  const Shape shape = sample_shape();
  if (request.network_shape != shape)
    fail_at(request.network_origin,
            fmt::format("expected {}, the table's {}columns of numbers, got {}; set model.input to {}",
                        to_string(shape), samples_.windows ? "data.table.window.length and " : "",
                        to_string(request.network_shape), to_string(shape)));
  if (const int64_t count = row_of_input(input_name::kCategories); count >= 0)
    require_count(request.network_origin, count, categories_.size(), "columns of categories",
                  "model.categories");
  // Rows to predict have no targets.
  if (const int64_t count = row_of_input(input_name::kTargets); count >= 0 && targets() > 0)
    require_count(request.network_origin, count, targets(), "columns of data.table.target",
                  "the network's outputs");
  return std::make_unique<PreparedReader>(*this, request.inputs);
}

}  // namespace

std::optional<TargetSpread> target_spread(const TableSource& source) {
  const std::vector<TablePreparation::Target>& targets = source.how().targets;
  const Table& table = source.table();
  if (table.columns.targets.empty() || targets.empty() || source.size() == 0) return std::nullopt;
  double squares = 0;
  for (size_t c = 0; c < targets.size(); ++c) {
    const auto value = [&](int64_t sample) -> double {
      return table.numbers_of(source.samples().target_row(sample))[table.columns.target_place(c)];
    };
    double sum = 0, sum_of_squares = 0;
    for (int64_t sample = 0; sample < source.size(); ++sample) sum += value(sample);
    const double mean = sum / static_cast<double>(source.size());
    for (int64_t sample = 0; sample < source.size(); ++sample) {
      const double difference = (value(sample) - mean) / targets[c].deviation;
      sum_of_squares += difference * difference;
    }
    squares += sum_of_squares / static_cast<double>(targets.size());
  }
  return TargetSpread{.deviation = targets.size() == 1 ? targets[0].deviation : 1, .squares = squares};
}

std::unique_ptr<TableSource> table_source(std::shared_ptr<const Table> table,
                                          std::shared_ptr<const TablePreparation> preparation,
                                          TableSamples samples) {
  return std::make_unique<PreparedRows>(std::move(table), std::move(preparation), std::move(samples));
}

}  // namespace trainer
