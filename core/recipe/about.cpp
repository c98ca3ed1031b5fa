// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/about.h"

#include <cmath>
#include <utility>

#include "core/base/json.h"
#include "core/recipe/as_trained.h"
#include "core/recipe/value_json.h"

namespace trainer {
namespace {

constexpr const char* kClassWeights = "class_weights";

}  // namespace

StoredMetadata about_network(const Recipe& recipe, const std::vector<std::string>& class_names,
                             const std::string& preparation) {
  const auto text = [](const Json& json) { return json.dump(-1, Json::NotUtf8::replace); };
  StoredMetadata about = {{about_name::kInput, text(to_json(recipe.value_of("model.input")))},
                          {about_name::kTransform, text(to_json(recipe.value_of("data.eval_transform")))}};
  if (!class_names.empty()) about[about_name::kClasses] = text(class_names);
  if (std::string tokenizer = about_tokenizer(recipe); !tokenizer.empty())
    about[about_name::kTokenizer] = std::move(tokenizer);
  if (!preparation.empty()) about[about_name::kTable] = preparation;
  return about;
}

void use_preparation(const Recipe& recipe, const StoredMetadata& about) {
  const auto stored = about.find(about_name::kTable);
  if (stored != about.end()) recipe.data.chosen_format().use_preparation(stored->second);
}

void add_class_weights(StoredMetadata& about, const std::vector<double>& weights) {
  if (!weights.empty()) about[kClassWeights] = Json(weights).dump(-1, Json::NotUtf8::replace);
}

std::vector<double> class_weights_in(const StoredMetadata& about) {
  const auto found = about.find(kClassWeights);
  if (found == about.end()) return {};
  const Json list = Json::parse_or_null(found->second);
  std::vector<double> weights;
  if (!list.is_array()) return weights;
  for (const Json& weight : list.items()) {
    if (!weight.is_number() || !(weight.number() >= 0) || !std::isfinite(weight.number())) return {};
    weights.push_back(weight.number());
  }
  return weights;
}

std::vector<std::string> class_names_in(const StoredMetadata& about) {
  const auto found = about.find(about_name::kClasses);
  if (found == about.end()) return {};
  const Json list = Json::parse_or_null(found->second);
  std::vector<std::string> names;
  if (!list.is_array()) return names;
  for (const Json& name : list.items()) {
    if (!name.is_text()) return {};
    names.push_back(name.text());
  }
  return names;
}

}  // namespace trainer
