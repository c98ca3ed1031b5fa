// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prediction_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/json.h"

namespace trainer {
namespace {

class JsonLines final : public PredictionFormat {
 public:
  std::string line(const PredictedSample& sample) const override {
    Json line;
    if (sample.file.empty()) {
      line["sample"] = sample.number;
    } else {
      line["file"] = sample.file;
    }
    if (sample.labels && sample.has_label_set) line["labels"] = *sample.labels;
    if (sample.labels && !sample.has_label_set) line["label"] = sample.labels->at(0);
    if (!sample.error.empty()) line["error"] = sample.error;
    for (const PredictedField& field : sample.fields)
      std::visit([&](const auto& value) { line[field.name] = value; }, field.value);
    return line.dump(-1, Json::NotUtf8::replace) + "\n";
  }
};

const PredictedField* find_field(const PredictedSample& sample, std::string_view name) {
  for (const PredictedField& field : sample.fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

/// Classes with a number each, the most certain ones or those that are predicted.
PredictedField::Pairs pairs_in(const PredictedSample& sample) {
  PredictedField::Pairs pairs;
  const PredictedField* chosen = find_field(sample, "classes");
  const auto* listed = chosen == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&chosen->value);
  for (const PredictedField& field : sample.fields) {
    const auto* list = std::get_if<std::vector<double>>(&field.value);
    if (const auto* given = std::get_if<PredictedField::Pairs>(&field.value)) pairs = *given;
    if (list == nullptr) continue;
    for (size_t i = 0; i < list->size(); ++i)
      pairs.emplace_back(field.follows_classes ? listed->at(i) : static_cast<int64_t>(i), (*list)[i]);
  }
  if (listed == nullptr) return pairs;
  const std::vector<int64_t>& classes = *listed;
  std::erase_if(pairs, [&](const auto& pair) {
    return std::find(classes.begin(), classes.end(), pair.first) == classes.end();
  });
  return pairs;
}

}  // namespace

std::string class_text(int64_t number, const std::vector<std::string>& names) {
  const auto place = static_cast<size_t>(number);
  return place < names.size() ? names[place] : std::to_string(number);
}

std::string prediction_text(const PredictedSample& sample, const std::vector<std::string>& names,
                            size_t most_classes) {
  if (!sample.error.empty()) return "error: " + sample.error;
  if (const PredictedField* mse = find_field(sample, "mse"))
    return fmt::format("mse {:.4g}", std::get<double>(mse->value));
  std::string text;
  PredictedField::Pairs pairs = pairs_in(sample);
  pairs.resize(std::min(pairs.size(), most_classes));
  for (const auto& [number, value] : pairs)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", class_text(number, names), value);
  return text.empty() ? "none" : text;
}

std::string label_text(const PredictedSample& sample, const std::vector<std::string>& names) {
  if (!sample.labels) return "";
  std::string text;
  for (const int64_t label : *sample.labels) text += (text.empty() ? "" : ", ") + class_text(label, names);
  return text.empty() ? "none" : text;
}

std::unique_ptr<PredictionFormat> json_lines_format() {
  return std::make_unique<JsonLines>();
}

}  // namespace trainer
