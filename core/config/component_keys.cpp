// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <typeinfo>

#include "core/config/field_values.h"
#include "core/config/fields.h"
#include "core/config/messages.h"
#include "core/config/other_names.h"
#include "core/config/reading.h"

namespace trainer {
namespace {

std::vector<std::string> names_of(const Registry<Component>& choices) {
  std::vector<std::string> names;
  for (const Registered<Component>& choice : choices) names.push_back(choice.name);
  return names;
}

}  // namespace

Group::Group(Kind group_kind, const std::string& group_name, const std::string& group_help)
    : kind(group_kind), name(group_name), help(group_help) {}

Group::~Group() = default;

Group& Group::required() {
  is_required = true;
  return *this;
}

Group& Group::does_not_affect_results() {
  is_mathematics = false;
  return *this;
}

Group& Group::absent_if_unset() {
  is_absent_if_unset = true;
  return *this;
}

Group& Group::absent_as(const std::string& component) {
  absent_component = component;
  return *this;
}

Group::Member& Group::adopt(Component& component) {
  for (const Registered<Component>& choice : choices) {
    if (!component.chosen_as.empty()) break;
    const std::unique_ptr<Component> made = choice.make();
    const Component& example = *made;
    if (typeid(example) == typeid(component)) component.chosen_as = choice.name;
  }
  if (component.chosen_as.empty()) throw std::logic_error("the default of '" + name + "' is in no registry");
  Member& member = members_.emplace_back(Member{&component, std::make_unique<Fields>(), {"default"}});
  component.declare(*member.fields);
  return member;
}

/// Puts a fresh component called `name` into the target; an unknown name is an error and gives nullptr.
Group::Member* Fields::choose(Group& group, const std::string& name, const Origin& named_at,
                              const Origin& origin, Reading& reading) {
  const auto choice = std::find_if(group.choices.begin(), group.choices.end(),
                                   [&](const Registered<Component>& row) { return row.name == name; });
  if (choice == group.choices.end()) {
    reading.error(named_at,
                  fmt::format("unknown name '{}'{}", shown(name), suggestion(name, names_of(group.choices))));
    return nullptr;
  }
  std::unique_ptr<Component> made = choice->make();
  Component& component = *made;
  component.chosen_as = name;
  component.origin = origin;
  if (group.kind == Group::Kind::component) group.members_.clear();
  group.put_(std::move(made));
  Group::Member& member = group.adopt(component);
  member.where = origin.where;
  return &member;
}

void Fields::read_parameters(const Value& value, Component& component, const std::vector<std::string>& skip,
                             Reading& reading) {
  read_map(value, component.origin.path, reading, skip);
  component.written = written();
}

void Fields::read_component(Group& group, const Value::Entry& entry, const std::string& path,
                            Reading& reading) {
  const Value& value = entry.value;
  const Origin origin{entry.where, path};
  if (value.kind == Value::Kind::null && !group.is_required)
    return;  // as an empty section: keeps the default
  group.is_named_ = true;
  if (value.kind == Value::Kind::scalar) {
    Value no_parameters;
    no_parameters.where = entry.where;
    if (Group::Member* member = choose(group, value.text, origin, origin, reading)) {
      member->fields->read_parameters(no_parameters, *member->component, {}, reading);
    }
    return;
  }
  if (value.kind != Value::Kind::map) {
    return reading.error(origin, fmt::format("expected a name, or a map with 'name' and parameters, found {}",
                                             describe(value)));
  }
  const auto named = std::find_if(value.entries.begin(), value.entries.end(),
                                  [](const Value::Entry& parameter) { return parameter.key == "name"; });
  if (named == value.entries.end()) return read_unnamed(group, entry, path, reading);
  const Origin named_at{named->where, join_path(path, "name")};
  if (named->value.reported) return;
  if (named->value.kind != Value::Kind::scalar) {
    return reading.error(named_at, fmt::format("expected one of: {}; found {}",
                                               listed(names_of(group.choices)), describe(named->value)));
  }
  if (Group::Member* member = choose(group, named->value.text, named_at, origin, reading)) {
    member->fields->read_parameters(value, *member->component, {"name"}, reading);
  }
}

/// Parameters without a name belong to the default. If they do not fit it, the name is wrong or missing. The
/// parameters are then not checked against a component that was never meant.
void Fields::read_unnamed(Group& group, const Value::Entry& entry, const std::string& path,
                          Reading& reading) {
  const Value& value = entry.value;
  Fields* fields = group.members_.empty() ? nullptr : group.members_.front().fields.get();
  std::vector<std::string> known;
  for (const Key& key : fields ? fields->keys_ : std::vector<Key>{}) {
    known.push_back(key.name());
  }
  const auto is_known = [&](const std::string& key) {
    return std::find(known.begin(), known.end(), key) != known.end();
  };
  bool fits = fields != nullptr;
  for (const Value::Entry& parameter : value.entries) {
    if (is_known(parameter.key)) continue;
    if (find_other_name(parameter.key) != nullptr) {
      reading.unknown({parameter.where, path, parameter.key, {}, {}});
      return;
    }
    if (nearest(parameter.key, {"name"})) {
      reading.unknown({parameter.where, path, parameter.key, {"name"}, {}});
      return;
    }
    fits &= nearest(parameter.key, known).has_value();
  }
  if (!fits) {
    group.is_named_ = false;
    reading.missing({value.where, path, "name", "one of: " + listed(names_of(group.choices))});
    return;
  }
  group.is_named_ = false;
  Group::Member& member = group.members_.front();
  member.where = entry.where;
  member.component->origin = {entry.where, path};
  fields->read_parameters(value, *member.component, {}, reading);
}

void Fields::read_components(Group& group, const Value::Entry& entry, const std::string& path,
                             Reading& reading) {
  if (entry.value.kind != Value::Kind::list) {
    return reading.error(
        entry.where, path,
        fmt::format("expected a list such as [{}], found {}",
                    group.choices.empty() ? "" : group.choices.front().name, describe(entry.value)));
  }
  group.members_.clear();
  group.clear_();
  for (size_t i = 0; i < entry.value.items.size(); ++i) {
    read_item(group, entry.value.items[i], fmt::format("{}[{}]", path, i), reading);
  }
}

void Fields::read_maps(Group& group, const Value::Entry& entry, const std::string& path, Reading& reading) {
  if (entry.value.kind != Value::Kind::list) {
    return reading.error(entry.where, path, "expected a list of maps, found " + describe(entry.value));
  }
  group.members_.clear();
  group.clear_();
  for (size_t i = 0; i < entry.value.items.size(); ++i) {
    const Value& item = entry.value.items[i];
    if (item.reported) continue;
    const Origin origin{item.where, fmt::format("{}[{}]", path, i)};
    Group::Member* member = choose(group, group.choices.front().name, origin, origin, reading);
    member->fields->read_parameters(item, *member->component, {}, reading);
  }
}

void Fields::read_item(Group& group, const Value& item, const std::string& path, Reading& reading) {
  if (item.reported) return;
  if (item.kind == Value::Kind::scalar) {
    Value::Entry entry{item.text, item.where, {}};
    entry.value.where = item.where;
    return read_named(group, entry, path, reading);
  }
  if (item.kind != Value::Kind::map || item.entries.empty()) {
    return reading.error(item.where, path,
                         fmt::format("expected a name, or `name: {{parameters}}`, found {}",
                                     item.kind == Value::Kind::map ? "an empty map" : describe(item)));
  }
  if (item.entries.size() == 1) return read_named(group, item.entries.front(), path, reading);

  // Of several keys, the first that names no component is the stray one, otherwise the second.
  const std::vector<std::string> names = names_of(group.choices);
  const auto is_name = [&](const Value::Entry& entry) {
    return std::find(names.begin(), names.end(), entry.key) != names.end();
  };
  auto stray = std::find_if_not(item.entries.begin(), item.entries.end(), is_name);
  if (stray == item.entries.end()) stray = item.entries.begin() + 1;
  const auto owner = std::find_if(item.entries.begin(), item.entries.end(), is_name);
  const std::string advice = is_name(*stray) || owner == item.entries.end()
                                 ? "start each component of the list with '- '"
                                 : fmt::format("indent it further if it belongs under '{}'", owner->key);
  reading.error(
      stray->where, path,
      fmt::format("expected one component, found another key '{}' beside it; {}", shown(stray->key), advice));
}

/// Reads `key: value` as the value of the bare field; false if there is none.
bool Fields::read_bare(const Value::Entry& entry, const std::string& path, Reading& reading) {
  const auto bare = std::ranges::find_if(fields_, [](const Field& field) { return field.is_bare; });
  if (bare == fields_.end()) return false;
  given_.clear();
  read_field(*bare, entry, path, reading);
  Value rest;
  rest.where = entry.where;
  read_missing(rest, path, reading);
  return true;
}

/// `name`, `name: {…}` or `name: value`, the value then being that of the bare field.
void Fields::read_named(Group& group, const Value::Entry& entry, const std::string& path, Reading& reading) {
  const Origin origin{entry.where, join_path(path, shown(entry.key))};
  Group::Member* member = choose(group, entry.key, origin, origin, reading);
  if (member == nullptr) return;
  Component& component = *member->component;
  Fields& fields = *member->fields;
  const bool is_value = entry.value.kind == Value::Kind::scalar || entry.value.kind == Value::Kind::list;
  if (!is_value) return fields.read_parameters(entry.value, component, {}, reading);

  if (!fields.read_bare(entry, origin.path, reading))
    return reading.error(origin, "expected a map of parameters, found " + describe(entry.value));
  component.written = fields.written();
}

}  // namespace trainer
