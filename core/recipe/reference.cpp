// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/recipe/recipe.h"
#include "core/recipe/schema.h"

namespace trainer {
namespace {

/// Text for a cell of a table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string row(const std::string& key, const Field& field) {
  const std::string bounds = field.bound_text().empty() ? "" : "; " + field.bound_text();
  const std::string fallback = field.is_required ? "required" : "`" + field.default_text() + "`";
  return fmt::format("| `{}` | {} | {} | {} |\n", key, field.type_text(), cell(fallback),
                     cell(field.help + bounds));
}

constexpr const char* kHead = "\n| key | type | default | meaning |\n|---|---|---|---|\n";

/// The keys of each map of a list, as `list[].key`.
std::string rows_of_maps(const Group& group) {
  Fields fields;
  const std::unique_ptr<Component> item = group.choices.front().make();
  item->declare(fields);
  std::string rows = fmt::format("| `{}` | list of maps | `[]` | {} |\n", group.name, cell(group.help));
  for (const Field& field : fields.list()) rows += row(fmt::format("{}[].{}", group.name, field.name), field);
  return rows;
}

/// A table of the fields directly in `fields`, or nothing if there is none.
std::string table(const Fields& fields, const std::vector<std::string>& leave_out = {}) {
  std::string rows;
  for (const Field& field : fields.list()) {
    if (std::find(leave_out.begin(), leave_out.end(), field.name) == leave_out.end())
      rows += row(field.name, field);
  }
  for (const Fields::Key& key : fields.keys()) {
    if (key.group != nullptr && key.group->kind == Group::Kind::maps) rows += rows_of_maps(*key.group);
  }
  return rows.empty() ? "" : kHead + rows;
}

std::string keys_text(const Fields& fields, const std::string& path,
                      const std::vector<std::string>& leave_out = {});

/// The components that `group` chooses from. Common parameters of all layers are listed once, above them.
std::string choices_text(const Group& group, const std::string& path) {
  const bool is_layer = path == "model.layers";
  const std::vector<std::string> common =
      is_layer ? std::vector<std::string>{"name", "inputs"} : std::vector<std::string>{};
  std::string text;
  for (const Registered<Component>& choice : group.choices) {
    Fields fields;
    const std::unique_ptr<Component> component = choice.make();
    component->declare(fields);
    if (is_layer && text.empty()) {
      text += "\nEvery layer takes\n";
      text += kHead;
      for (const Field& field : fields.list()) {
        if (std::find(common.begin(), common.end(), field.name) != common.end())
          text += row(field.name, field);
      }
    }
    const std::string note = choice.name == group.default_name() ? " (default)" : "";
    text += fmt::format("\n### {}: {}{}\n\n{}\n", path, choice.name, note, choice.help);
    text += keys_text(fields, path, common);
  }
  return text;
}

std::string keys_text(const Fields& fields, const std::string& path,
                      const std::vector<std::string>& leave_out) {
  std::string text = table(fields, leave_out);
  for (const Fields::Key& key : fields.keys()) {
    if (key.group == nullptr || key.group->kind == Group::Kind::maps) continue;
    const std::string below = path.empty() ? key.group->name : path + "." + key.group->name;
    const char* form = key.group->kind == Group::Kind::component    ? "; `name` chooses one of these"
                       : key.group->kind == Group::Kind::components ? "; a list of these"
                                                                    : "";
    text += fmt::format("\n## {}\n\n{}{}{}\n", below, key.group->help, form,
                        key.group->is_required ? " (required)" : "");
    text += key.group->section ? keys_text(*key.group->section, below) : choices_text(*key.group, below);
  }
  return text;
}

}  // namespace

std::string recipe_reference() {
  const Recipe recipe;
  return "# Recipe reference\n\n"
         "Every key of a recipe. Printed by `trainer schema --markdown`; do not edit. `trainer schema` "
         "prints the same\n"
         "as a JSON Schema for editors ([recipe.schema.json](recipe.schema.json)).\n" +
         keys_text(recipe.fields(), "");
}

}  // namespace trainer
