// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/trainer/prediction_format.h"
#include "core/metrics/csv_row.h"

namespace trainer {
namespace {

/// "probability" of "probabilities".
std::string singular(const std::string& name) {
  if (name.ends_with("ies")) return name.substr(0, name.size() - 3) + "y";
  return name.ends_with('s') ? name.substr(0, name.size() - 1) : name;
}

template <class T>
std::string list_text(const std::vector<T>& list) {
  return fmt::format("{}", fmt::join(list, ";"));
}

class Csv final : public PredictionFormat {
 public:
  explicit Csv(PredictionColumns columns) : columns_(std::move(columns)) {}

  std::string head() const override {
    std::vector<std::string> names = {columns_.has_files ? "file" : "sample"};
    if (columns_.has_labels) names.emplace_back(columns_.has_label_sets ? "labels" : "label");
    if (columns_.has_labels && !columns_.class_names.empty())
      names.emplace_back(columns_.has_label_sets ? "label_names" : "label_name");
    for (const PredictedField& field : columns_.fields) add_names(field, names);
    names.emplace_back("error");
    return csv_row(names);
  }

  std::string line(const PredictedSample& sample) const override {
    std::vector<std::string> values = {columns_.has_files ? sample.file : std::to_string(sample.number)};
    if (columns_.has_labels) add_labels(sample, values);
    for (const PredictedField& column : columns_.fields) {
      const auto found = std::find_if(sample.fields.begin(), sample.fields.end(),
                                      [&](const PredictedField& field) { return field.name == column.name; });
      add_values(column, found == sample.fields.end() ? nullptr : &*found, values);
    }
    values.push_back(sample.error);
    return csv_row(values);
  }

 private:
  /// The likeliest class may be a column of its own already.
  bool has_class() const {
    return std::any_of(columns_.fields.begin(), columns_.fields.end(),
                       [](const PredictedField& field) { return field.name == "class"; });
  }

  /// A column for each class.
  static bool is_of_all_classes(const PredictedField& field) {
    return std::holds_alternative<std::vector<double>>(field.value) && !field.follows_classes;
  }

  void add_names(const PredictedField& field, std::vector<std::string>& names) const {
    const std::string one = singular(field.name);
    if (is_of_all_classes(field)) {
      for (size_t c = 0; c < columns_.classes; ++c)
        names.push_back(fmt::format("{}_{}", one, class_text(static_cast<int64_t>(c), columns_.class_names)));
    } else if (std::holds_alternative<PredictedField::Pairs>(field.value)) {
      for (size_t k = 0; k < columns_.top; ++k) {
        const std::string number = columns_.top == 1 ? "" : fmt::format("_{}", k + 1);
        if (k > 0 || !has_class()) names.push_back("class" + number);
        names.push_back(one + number);
      }
    } else {
      names.push_back(field.name);
    }
  }

  void add_labels(const PredictedSample& sample, std::vector<std::string>& values) const {
    values.push_back(sample.labels ? list_text(*sample.labels) : "");
    if (columns_.class_names.empty()) return;
    std::vector<std::string> names;
    for (const int64_t label : sample.labels.value_or(std::vector<int64_t>{}))
      names.push_back(class_text(label, columns_.class_names));
    values.push_back(list_text(names));
  }

  /// Empty values for a sample without this field.
  void add_values(const PredictedField& column, const PredictedField* field,
                  std::vector<std::string>& values) const {
    if (is_of_all_classes(column)) {
      const auto* list = field == nullptr ? nullptr : std::get_if<std::vector<double>>(&field->value);
      for (size_t c = 0; c < columns_.classes; ++c)
        values.push_back(list == nullptr ? "" : fmt::format("{}", list->at(c)));
    } else if (std::holds_alternative<PredictedField::Pairs>(column.value)) {
      const auto* pairs = field == nullptr ? nullptr : std::get_if<PredictedField::Pairs>(&field->value);
      for (size_t k = 0; k < columns_.top; ++k) {
        const bool is_there = pairs != nullptr && k < pairs->size();
        if (k > 0 || !has_class()) values.push_back(is_there ? std::to_string((*pairs)[k].first) : "");
        values.push_back(is_there ? fmt::format("{}", (*pairs)[k].second) : "");
      }
    } else {
      values.push_back(field == nullptr ? "" : single_value(*field));
    }
  }

  static std::string single_value(const PredictedField& field) {
    if (const auto* number = std::get_if<int64_t>(&field.value)) return std::to_string(*number);
    if (const auto* number = std::get_if<double>(&field.value)) return fmt::format("{}", *number);
    if (const auto* text = std::get_if<std::string>(&field.value)) return *text;
    if (const auto* list = std::get_if<std::vector<int64_t>>(&field.value)) return list_text(*list);
    if (const auto* list = std::get_if<std::vector<double>>(&field.value)) return list_text(*list);
    return list_text(std::get<std::vector<std::string>>(field.value));
  }

  PredictionColumns columns_;
};

}  // namespace

std::unique_ptr<PredictionFormat> csv_format(PredictionColumns columns) {
  return std::make_unique<Csv>(std::move(columns));
}

}  // namespace trainer
