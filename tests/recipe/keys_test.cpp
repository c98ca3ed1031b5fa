// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys.h"

#include <algorithm>
#include "tests/catch.h"

#include "core/recipe/recipe.h"

namespace trainer {
namespace {

void add_paths(std::vector<std::string>& paths, const Value& value, const std::string& path) {
  if (value.kind != Value::Kind::map) return paths.push_back(path);
  for (const Value::Entry& entry : value.entries)
    add_paths(paths, entry.value, path.empty() ? entry.key : path + "." + entry.key);
}

}  // namespace

TEST_CASE("the keys for overrides are all that a resolved recipe has, each once") {
  std::vector<std::string> paths;
  const Recipe recipe;
  add_paths(paths, recipe.fields().resolved(), "");
  REQUIRE(paths.size() > 50);
  const std::vector<RecipeKey> keys = recipe_keys();
  for (const std::string& path : paths) {
    INFO(path);
    CHECK(std::ranges::count(keys, path, &RecipeKey::path) == 1);
  }
  const auto momentum = std::ranges::find(keys, "optimizer.momentum", &RecipeKey::path);
  REQUIRE(momentum != keys.end());
  CHECK(!momentum->help.empty());
  const auto rule = std::ranges::find(keys, "optimizer.name", &RecipeKey::path);
  REQUIRE(rule != keys.end());
  CHECK(std::ranges::count(rule->values, "adamw") == 1);
}

}  // namespace trainer
