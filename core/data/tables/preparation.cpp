// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/data/in_parallel.h"
#include "core/data/tables/number.h"

namespace trainer {
namespace {

/// As numpy.quantile: linear between the two nearest. Reorders the values.
double quantile(std::vector<float>& values, double share) {
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(place);
  const auto at = values.begin() + below;
  std::nth_element(values.begin(), at, values.end());
  if (at + 1 == values.end()) return *at;
  const double next = *std::min_element(at + 1, values.end());
  return *at + (next - *at) * (place - static_cast<double>(below));
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Of all values; 1 for a column of equal ones, as scikit-learn's StandardScaler.
double deviation_of(const std::vector<double>& values, double mean) {
  double sum = 0, difference = 0;
  for (const double value : values) {
    sum += (value - mean) * (value - mean);
    difference += value - mean;
  }
  const auto count = static_cast<double>(values.size());
  const double variance = (sum - difference * difference / count) / count;
  // Less is the rounding of equal values: the bound of scikit-learn 1.x (_is_constant_feature).
  const double rounding = count * std::numeric_limits<double>::epsilon();
  const bool is_constant = variance <= rounding * variance + std::pow(rounding * mean, 2);
  return is_constant ? 1 : std::sqrt(variance);
}

class Preparer {
 public:
  Preparer(const Table& table, std::span<const int64_t> rows, const TableRequest& request)
      : table_(table), rows_(rows), request_(request) {}

  TablePreparation::Number number(size_t column) const {
    const TableColumns::Column& of = table_.columns.all[column];
    TablePreparation::Number found{.name = of.name};
    std::vector<float> known;
    for (const int64_t row : rows_) {
      const float value = table_.numbers_of(row)[of.place];
      if (value == value) known.push_back(value);
    }
    if (known.empty()) return found;
    const double clip = request_.keys.clip;
    if (clip > 0) {
      found.low = quantile(known, clip);
      found.high = quantile(known, 1 - clip);
    }
    const auto clipped = [&](double value) { return std::clamp(value, found.low, found.high); };
    found.fill = request_.keys.missing == "median"
                     ? clipped(quantile(known, 0.5))
                     : std::accumulate(known.begin(), known.end(), 0.0, [&](double sum, float value) {
                         return sum + clipped(value);
                       }) / static_cast<double>(known.size());
    scale(of.place, found);
    return found;
  }

  TablePreparation::Category category(size_t column) const {
    const TableColumns::Column& of = table_.columns.all[column];
    return {of.name, words_of(of.place)};
  }

  TablePreparation::Target target(size_t column) const {
    const TableColumns::Column& of = table_.columns.all[column];
    std::vector<double> values;
    for (const int64_t row : rows_) values.push_back(table_.numbers_of(row)[of.place]);
    const double mean = mean_of(values);
    return {.name = of.name, .mean = mean, .deviation = deviation_of(values, mean)};
  }

  std::vector<std::string> classes(size_t column) const {
    std::vector<std::string> words = words_of(table_.columns.all[column].place);
    double number = 0;
    if (!std::ranges::all_of(words, [&](const std::string& word) { return parse_number(word, number); }))
      return words;
    std::ranges::stable_sort(words, {}, [](const std::string& word) {
      double value = 0;
      parse_number(word, value);
      return value;
    });
    return words;
  }

 private:
  void scale(size_t place, TablePreparation::Number& found) const {
    if (request_.keys.scale == "none") return;
    std::vector<double> values;
    for (const int64_t row : rows_) {
      const float value = table_.numbers_of(row)[place];
      values.push_back(value == value ? std::clamp<double>(value, found.low, found.high) : found.fill);
    }
    if (request_.keys.scale == "min_max") {
      const auto [least, most] = std::ranges::minmax(values);
      found.shift = least;
      found.scale = most > least ? most - least : 1;
    } else {
      found.shift = mean_of(values);
      found.scale = deviation_of(values, found.shift);
    }
  }

  /// The texts that these rows have.
  std::vector<std::string> words_of(size_t place) const {
    const std::vector<std::string>& all = table_.words[place];
    std::vector<bool> is_there(all.size());
    for (const int64_t row : rows_) {
      const int32_t code = table_.codes_of(row)[place];
      if (code != Table::kNoCode) is_there[static_cast<size_t>(code)] = true;
    }
    std::vector<std::string> words;
    for (size_t i = 0; i < all.size(); ++i)
      if (is_there[i]) words.push_back(all[i]);
    return words;
  }

  const Table& table_;
  std::span<const int64_t> rows_;
  const TableRequest& request_;
};

constexpr const char *kNameMember = "name", *kFillMember = "fill", *kLowMember = "low", *kHighMember = "high",
                     *kShiftMember = "shift", *kScaleMember = "scale", *kTextsMember = "texts",
                     *kMeanMember = "mean", *kDeviationMember = "deviation", *kNumbersMember = "numbers",
                     *kCategoriesMember = "categories", *kTargetsMember = "targets", *kLabelMember = "label",
                     *kClassesMember = "classes", *kRefusesMember = "refuses_missing";

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

TablePreparation prepare_table(const Table& table, std::span<const int64_t> rows, const TableRequest& request,
                               int64_t threads) {
  const Preparer prepare(table, rows, request);
  const TableColumns& columns = table.columns;
  TablePreparation found;
  found.numbers.resize(columns.numbers.size());
  in_parallel(columns.numbers.size(), threads,
              [&](size_t i) { found.numbers[i] = prepare.number(columns.numbers[i]); });
  for (const size_t column : columns.categories) found.categories.push_back(prepare.category(column));
  if (request.targets == TargetUse::numbers) {
    for (const size_t column : columns.targets) found.targets.push_back(prepare.target(column));
  } else if (request.targets == TargetUse::label_sets) {
    found.classes = columns.names(columns.targets);
  } else if (columns.label) {
    found.label = columns.all[*columns.label].name;
    found.classes = prepare.classes(*columns.label);
  }
  found.refuses_missing = request.keys.missing == "error";
  return found;
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
  return Json{{kNumbersMember, numbers},
              {kCategoriesMember, categories},
              {kTargetsMember, targets},
              {kLabelMember, preparation.label},
              {kClassesMember, preparation.classes},
              {kRefusesMember, preparation.refuses_missing ? 1 : 0}}
      .dump(-1, Json::NotUtf8::replace);
}

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
  found.label = all.text(kLabelMember);
  found.classes = all.texts(kClassesMember);
  found.refuses_missing = all.number(kRefusesMember) != 0;
  if (!is_valid || !all.is_valid()) return std::nullopt;
  return found;
}

}  // namespace trainer
