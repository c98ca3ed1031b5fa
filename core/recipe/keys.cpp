// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys.h"

#include <algorithm>

#include "core/config/file_path.h"
#include "core/recipe/recipe.h"

namespace trainer {
namespace {

void add_key(std::vector<RecipeKey>& keys, RecipeKey key) {
  const auto is_same = [&](const RecipeKey& other) { return other.path == key.path; };
  if (std::ranges::none_of(keys, is_same)) keys.push_back(std::move(key));
}

RecipeKey key_of(const Field& field, const std::string& path) {
  RecipeKey key{.path = path, .help = field.help, .values = field.names};
  const auto holds = [&]<class T>(T*) { return std::holds_alternative<T*>(field.target); };
  if (holds(static_cast<bool*>(nullptr))) key.values = {"true", "false"};
  const bool is_text =
      holds(static_cast<std::string*>(nullptr)) || holds(static_cast<std::optional<std::string>*>(nullptr)) ||
      holds(static_cast<FilePath*>(nullptr)) || holds(static_cast<std::optional<FilePath>*>(nullptr));
  key.is_text = is_text && key.values.empty();
  return key;
}

void add_keys(std::vector<RecipeKey>& keys, const Fields& fields, const std::string& path);

void add_choices(std::vector<RecipeKey>& keys, const Group& group, const std::string& path) {
  RecipeKey name{.path = path + "name", .help = group.help};
  for (const Registered<Component>& choice : group.choices) name.values.push_back(choice.name);
  add_key(keys, std::move(name));
  for (const Registered<Component>& choice : group.choices) {
    const std::unique_ptr<Component> component = choice.make();
    Fields parameters;
    component->declare(parameters);
    add_keys(keys, parameters, path);
  }
}

void add_keys(std::vector<RecipeKey>& keys, const Fields& fields, const std::string& path) {
  for (const Fields::Key& key : fields.keys()) {
    const std::string name = path + key.name();
    if (key.field != nullptr) {
      add_key(keys, key_of(*key.field, name));
    } else if (key.group->kind == Group::Kind::section) {
      add_keys(keys, *key.group->section, name + ".");
    } else if (key.group->kind == Group::Kind::component) {
      add_choices(keys, *key.group, name + ".");
    } else {
      add_key(keys, {.path = name, .help = key.group->help});
    }
  }
}

}  // namespace

std::vector<RecipeKey> recipe_keys() {
  const Recipe recipe;
  std::vector<RecipeKey> keys;
  add_keys(keys, recipe.fields(), "");
  return keys;
}

}  // namespace trainer
