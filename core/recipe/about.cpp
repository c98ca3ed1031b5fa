// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/about.h"

#include "core/base/json.h"
#include "core/recipe/value_json.h"

namespace trainer {
namespace {

constexpr const char* kClasses = "classes";

}  // namespace

StoredMetadata about_network(const Recipe& recipe, const std::vector<std::string>& class_names) {
  const auto text = [](const Json& json) { return json.dump(-1, Json::NotUtf8::replace); };
  StoredMetadata about = {{"input", text(to_json(recipe.value_of("model.input")))},
                          {"eval_transform", text(to_json(recipe.value_of("data.eval_transform")))}};
  if (!class_names.empty()) about[kClasses] = text(class_names);
  return about;
}

std::vector<std::string> class_names_in(const StoredMetadata& about) {
  const auto found = about.find(kClasses);
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
