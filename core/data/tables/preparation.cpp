// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/preparation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/json.h"

namespace trainer {
namespace {

constexpr const char *kNameMember = "name", *kFillMember = "fill", *kLowMember = "low", *kHighMember = "high",
                     *kShiftMember = "shift", *kScaleMember = "scale", *kTextsMember = "texts",
                     *kMeanMember = "mean", *kDeviationMember = "deviation", *kNumbersMember = "numbers",
                     *kCategoriesMember = "categories", *kTargetsMember = "targets", *kLabelMember = "label",
                     *kClassesMember = "classes", *kRefusesMember = "refuses_missing", *kStepMember = "step",
                     *kUnitMember = "unit", *kSizeMember = "size", *kTextMember = "text";
/// Of TimeStep::Unit.
constexpr std::array<const char*, 3> kUnits = {"number", "second", "month"};

/// Reads members, and remembers whether all are there.
class Members {
 public:
  explicit Members(const Json& object) : object_(object), is_valid_(object.is_object()) {}
  double number(const char* key) {
    const Json* found = object_.find(key);
    is_valid_ = is_valid_ && found != nullptr && found->is_number();
    return is_valid_ ? found->number() : 0;
  }
  /// Infinity is not in JSON: it is left out.
  double number_or(const char* key, double otherwise) {
    return object_.contains(key) ? number(key) : otherwise;
  }
  std::string text(const char* key) {
    const Json* found = object_.find(key);
    is_valid_ = is_valid_ && found != nullptr && found->is_text();
    return is_valid_ ? found->text() : "";
  }
  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> all;
    for (const Json& item : items(key)) {
      is_valid_ = is_valid_ && item.is_text();
      if (is_valid_) all.push_back(item.text());
    }
    return all;
  }
  std::vector<Json> items(const char* key) {
    const Json* found = object_.find(key);
    is_valid_ = is_valid_ && found != nullptr && found->is_array();
    return is_valid_ ? found->items() : std::vector<Json>();
  }
  bool is_valid() const { return is_valid_; }

 private:
  const Json& object_;
  bool is_valid_;
};

}  // namespace

int64_t TablePreparation::category_rows() const {
  int64_t rows = 0;
  for (const Category& category : categories) rows += 1 + static_cast<int64_t>(category.texts.size());
  return rows;
}

std::string to_json(const TablePreparation& preparation) {
  Json numbers = Json::array(), categories = Json::array(), targets = Json::array();
  for (const TablePreparation::Number& number : preparation.numbers) {
    Json item{{kNameMember, number.name},
              {kFillMember, number.fill},
              {kShiftMember, number.shift},
              {kScaleMember, number.scale}};
    if (std::isfinite(number.low)) item[kLowMember] = number.low;
    if (std::isfinite(number.high)) item[kHighMember] = number.high;
    numbers.push_back(std::move(item));
  }
  for (const auto& [name, texts] : preparation.categories)
    categories.push_back(Json{{kNameMember, name}, {kTextsMember, texts}});
  for (const auto& [name, mean, deviation] : preparation.targets)
    targets.push_back(Json{{kNameMember, name}, {kMeanMember, mean}, {kDeviationMember, deviation}});
  Json all{{kNumbersMember, numbers},
           {kCategoriesMember, categories},
           {kTargetsMember, targets},
           {kLabelMember, preparation.label},
           {kClassesMember, preparation.classes},
           {kRefusesMember, preparation.refuses_missing ? 1 : 0}};
  if (!preparation.text.empty()) all[kTextMember] = preparation.text;
  if (const auto& step = preparation.step)
    all[kStepMember] =
        Json{{kUnitMember, kUnits.at(static_cast<size_t>(step->unit))}, {kSizeMember, step->size}};
  return all.dump(-1, Json::NotUtf8::replace);
}

namespace {

/// False for a step that is none.
bool parse_step(const Json* json, std::optional<TimeStep>& step) {
  if (json == nullptr) return true;
  Members members(*json);
  const auto unit = std::ranges::find(kUnits, members.text(kUnitMember));
  const double size = members.number(kSizeMember);
  step = TimeStep{static_cast<TimeStep::Unit>(unit - kUnits.begin()), size};
  return members.is_valid() && unit != kUnits.end() && size > 0;
}

}  // namespace

std::optional<TablePreparation> parse_preparation(std::string_view text) {
  const Json json = Json::parse_or_null(text);
  Members all(json);
  TablePreparation found;
  bool is_valid = true;
  for (const Json& item : all.items(kNumbersMember)) {
    Members number(item);
    const TablePreparation::Number none;
    found.numbers.push_back({.name = number.text(kNameMember),
                             .fill = number.number(kFillMember),
                             .low = number.number_or(kLowMember, none.low),
                             .high = number.number_or(kHighMember, none.high),
                             .shift = number.number(kShiftMember),
                             .scale = number.number(kScaleMember)});
    is_valid = is_valid && number.is_valid() && found.numbers.back().scale > 0;
  }
  for (const Json& item : all.items(kCategoriesMember)) {
    Members category(item);
    found.categories.push_back({category.text(kNameMember), category.texts(kTextsMember)});
    is_valid = is_valid && category.is_valid() && std::ranges::is_sorted(found.categories.back().texts);
  }
  for (const Json& item : all.items(kTargetsMember)) {
    Members target(item);
    found.targets.push_back(
        {target.text(kNameMember), target.number(kMeanMember), target.number(kDeviationMember)});
    is_valid = is_valid && target.is_valid() && found.targets.back().deviation > 0;
  }
  if (json.is_object() && json.contains(kTextMember)) found.text = all.text(kTextMember);
  found.label = all.text(kLabelMember);
  found.classes = all.texts(kClassesMember);
  found.refuses_missing = all.number(kRefusesMember) != 0;
  if (json.is_object()) is_valid = parse_step(json.find(kStepMember), found.step) && is_valid;
  if (!is_valid || !all.is_valid()) return std::nullopt;
  return found;
}

}  // namespace trainer
