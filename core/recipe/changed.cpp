// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/changed.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/recipe/recipe.h"

namespace trainer {
namespace {

/// Collects the defaults of all keys, those of the components that a recipe chooses included.
class Defaults {
 public:
  explicit Defaults(const Settings& settings) : settings_(settings) {
    const Recipe recipe;
    collect(recipe.fields(), "");
  }

  const std::string* find(const std::string& key) const {
    const auto found = texts_.find(key);
    return found == texts_.end() ? nullptr : &found->second;
  }

 private:
  void collect(const Fields& fields, const std::string& path) {
    for (const Fields::Key& key : fields.keys()) {
      const std::string below = path + key.name();
      if (key.field != nullptr) {
        texts_[below] = key.field->is_required ? "" : key.field->current_text();
      } else if (key.group->kind == Group::Kind::section) {
        collect(*key.group->section, below + ".");
      } else if (key.group->kind == Group::Kind::component) {
        collect_component(*key.group, below);
      } else {
        texts_[below] = "[]";
      }
    }
  }

  void collect_component(const Group& group, const std::string& path) {
    texts_[path + ".name"] = group.default_name();
    texts_[path] = "null";
    const auto named = settings_.find(path + ".name");
    const std::string name = named == settings_.end() ? group.default_name() : named->second;
    const auto choice = std::ranges::find(group.choices, name, [](const auto& each) { return each.name; });
    if (choice == group.choices.end()) return;
    Fields fields;
    const std::unique_ptr<Component> component = choice->make();
    component->declare(fields);
    collect(fields, path + ".");
  }

  const Settings& settings_;
  Settings texts_;
};

bool names_the_run(const std::string& key) {
  return key == "version" || key == "run.name" || key == "run.output_dir" || key == "run.resume";
}

/// The items of lists by the lists' keys and the items' numbers.
using Lists = std::map<std::string, std::map<int64_t, std::string>>;

/// Notes the item that a key belongs to: item 2 of `model.layers` is "linear" by
/// `model.layers[2].linear.bias`.
void note_item(Lists& lists, const std::string& key, const std::string& value) {
  const size_t begin = key.find('[') + 1, end = key.find(']', begin);
  int64_t number = 0;
  if (end == std::string::npos || std::from_chars(&key[begin], &key[end], number).ptr != &key[end]) return;
  const bool has_keys = end + 2 < key.size();
  lists[key.substr(0, begin - 1)].emplace(
      number, has_keys ? key.substr(end + 2, key.find('.', end + 2) - end - 2) : value);
}

/// "6: flatten, linear, relu, …"
std::string list_text(const std::map<int64_t, std::string>& items) {
  constexpr size_t kMost = 8;
  std::string names;
  size_t count = 0;
  for (const auto& [number, name] : items)
    if (++count <= kMost) names += (count == 1 ? "" : ", ") + name;
  return fmt::format("{}: {}{}", items.size(), names, count > kMost ? ", …" : "");
}

}  // namespace

std::vector<ChangedSetting> changed_settings(const Settings& settings) {
  const Defaults defaults(settings);
  std::vector<ChangedSetting> changed;
  Lists lists;
  for (const auto& [key, value] : settings) {
    if (key.empty()) continue;  // the file holds no keys
    const std::string* usual = defaults.find(key);
    if (key.find('[') != std::string::npos) {
      note_item(lists, key, value);
    } else if (!names_the_run(key) && (usual == nullptr || *usual != value)) {
      changed.push_back({key, value, usual == nullptr ? "" : *usual});
    }
  }
  for (const auto& [key, items] : lists) changed.push_back({key, list_text(items), "[]"});
  std::ranges::stable_sort(changed, {}, [](const ChangedSetting& each) { return interest_in(each.key); });
  return changed;
}

}  // namespace trainer
