// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/as_trained.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/json.h"
#include "core/data/tokens/formats.h"
#include "core/recipe/about.h"
#include "core/recipe/value_json.h"

namespace trainer {
namespace {

struct StoredKey {
  const char* item;  ///< of the metadata
  const char* key;   ///< of the recipe
};
constexpr StoredKey kImageKeys[] = {{about_name::kInput, "model.input"},
                                    {about_name::kTransform, "data.eval_transform"}};

std::string text_of(const Recipe& recipe, const char* key) {
  return to_json(recipe.value_of(key)).dump(-1, Json::NotUtf8::replace);
}

/// The stored values as overrides; JSON is YAML as well. Those of other programs are no lists.
std::vector<std::string> stored_overrides(const StoredMetadata& about) {
  std::vector<std::string> overrides;
  for (const StoredKey& row : kImageKeys) {
    const auto found = about.find(row.item);
    if (found == about.end() || !Json::parse_or_null(found->second).is_array()) continue;
    overrides.push_back(fmt::format("{}={}", row.key, found->second));
  }
  return overrides;
}

/// The stored values are read again, so that keys that have come since have their defaults in both. Values of
/// later versions cannot be read.
void compare_images(const Recipe& recipe, const StoredMetadata& about, const RecipeReader& read,
                    AsTrained& found) {
  const std::vector<std::string> overrides = stored_overrides(about);
  const auto differs = [&](const StoredKey& row) {
    const auto stored = about.find(row.item);
    return stored != about.end() && stored->second != text_of(recipe, row.key);
  };
  if (overrides.empty() || std::ranges::none_of(kImageKeys, differs)) return;
  std::string obstacle;
  try {
    found.recipe = read(overrides);
  } catch (const Error& problem) {
    obstacle = problem.what();
  }
  for (const StoredKey& row : kImageKeys) {
    if (!differs(row)) continue;
    std::string there = found.recipe ? text_of(*found.recipe, row.key) : about.at(row.item);
    std::string here = text_of(recipe, row.key);
    if (there != here) found.differences.push_back({row.key, std::move(there), std::move(here), obstacle});
  }
  if (found.differences.empty()) found.recipe = nullptr;
}

}  // namespace

std::string about_tokenizer(const Recipe& recipe) {
  if (recipe.model.kind() != InputKind::tokens && recipe.model.kind() != InputKind::text) return "";
  const Tokenizer* tokenizer = tokenizer_of(recipe.data);
  if (tokenizer == nullptr) return "";
  const Json json = {{"name", std::string(tokenizer->name())},
                     {"vocab_size", tokenizer->vocabulary()},
                     {"checksum", fmt::format("{:016x}", tokenizer->checksum())}};
  return json.dump();
}

AsTrained compare_with_weights(const Recipe& recipe, const StoredMetadata& about, const RecipeReader& read) {
  AsTrained found;
  if (recipe.model.kind() == InputKind::pixels) {
    compare_images(recipe, about, read, found);
  } else if (const auto stored = about.find(about_name::kTokenizer); stored != about.end()) {
    const std::string here = about_tokenizer(recipe);
    if (!here.empty() && here != stored->second && Json::parse_or_null(stored->second).is_object())
      found.differences.push_back(
          {"data.tokenizer", stored->second, here, "a tokenizer is not in the weights"});
  }
  return found;
}

}  // namespace trainer
