// SPDX-License-Identifier: Apache-2.0
#include "core/config/field_values.h"

#include <algorithm>
#include <utility>
#include "core/config/environment.h"
#include "core/config/fields.h"
#include "core/config/old_keys.h"

namespace trainer {
namespace {

const Location kDefault{"default"};

/// Sets the place of a value made here and of all that it holds.
void place(Value& value, const Location& where) {
  value.where = where;
  for (Value& item : value.items) place(item, where);
}

/// A relative path changes its meaning if the recipe moves.
struct FromAnywhere {
  Value& value;
  void operator()(const FilePath* path) const {
    if (!path->has_base) return;
    value.text = from_anywhere(*path);
    value.raw = reads_environment(value.raw) ? from_anywhere(*path, value.raw) : value.text;
  }
  void operator()(const std::optional<FilePath>* path) const {
    if (*path) (*this)(&**path);
  }
  template <class T>
  void operator()(const T*) const {}
};

/// Null, an empty list, or a map of such values.
bool is_unset(const Value& value) {
  if (value.kind == Value::Kind::map)
    return std::ranges::all_of(value.entries,
                               [](const Value::Entry& entry) { return is_unset(entry.value); });
  return value.kind == Value::Kind::null || (value.kind == Value::Kind::list && value.items.empty());
}

void use_stored_name(const std::string& map_name, std::string& name, Value& value) {
  const Leaf stored = as_in_identities({map_name + "." + name, value.text});
  name = stored.path.substr(map_name.size() + 1);
  if (stored.value != value.text) value.text = value.raw = stored.value;
}

}  // namespace

Value Fields::resolved(Form form) const {
  return resolved_map(form, "");
}

/// `map_name` is that of the component or else the key that has these fields.
Value Fields::resolved_map(Form form, const std::string& map_name) const {
  Value map;
  map.kind = Value::Kind::map;
  map.where = kDefault;
  for (const Key& key : keys_) {
    const bool is_mathematics = key.field ? key.field->is_mathematics : key.group->is_mathematics;
    if (!is_mathematics && (form == Form::mathematics || form == Form::identity)) continue;
    if (form == Form::identity && key.group && !key.group->absent_component.empty() &&
        key.group->default_name() == key.group->absent_component)
      continue;
    if (form == Form::identity && key.field && key.field->absent_value == key.field->current_text()) continue;
    std::string name = key.name();
    const auto given = given_.find(name);
    const Location where = given == given_.end() ? kDefault : given->second.where;
    Value value;
    if (key.group) {
      value = resolved_group(*key.group, form);
      value.where = where;
    } else if (given != given_.end() && form == Form::as_written) {
      value = given->second.value;
      std::visit(FromAnywhere{value}, key.field->target);
    } else {
      value = current_value(*key.field);
      if (form == Form::identity) use_stored_name(map_name, name, value);
      const bool is_hidden =
          form != Form::mathematics && given != given_.end() && reads_environment(given->second.value);
      if (is_hidden) value = key.field->is_left_to_samples ? left_to_samples() : hidden(name, value);
      place(value, where);
    }
    const bool identifies = form == Form::mathematics || form == Form::identity;
    if (key.group && key.group->is_absent_if_unset && identifies && is_unset(value)) continue;
    map.entries.push_back({name, where, std::move(value)});
  }
  return map;
}

Value Fields::resolved_group(const Group& group, Form form) {
  if (group.kind == Group::Kind::section) return group.section->resolved_map(form, group.name);
  if (group.kind == Group::Kind::component) {
    if (group.members_.empty()) return Value{};
    return resolved_component(group, form);
  }
  Value list;
  list.kind = Value::Kind::list;
  for (const Group::Member& member : group.members_) {
    list.items.push_back(group.kind == Group::Kind::maps ? member.fields->resolved_map(form, group.name)
                                                         : resolved_item(member, form));
    list.items.back().where = member.where;
  }
  return list;
}

Value Fields::resolved_component(const Group& group, Form form) {
  const Group::Member& member = group.members_.front();
  Value map = member.fields->resolved_map(form, group.name);
  Value name;
  name.kind = Value::Kind::scalar;
  name.text = name.raw = member.component->chosen_as;
  name.where = member.where;
  map.entries.insert(map.entries.begin(), {"name", member.where, std::move(name)});
  return map;
}

/// `name` alone if there are no parameters, else `name: {…}`.
Value Fields::resolved_item(const Group::Member& member, Form form) {
  const std::string& name = member.component->chosen_as;
  Value parameters = member.fields->resolved_map(form, name);
  Value item;
  item.where = parameters.where = member.where;
  if (parameters.entries.empty()) {
    item.kind = Value::Kind::scalar;
    item.text = item.raw = name;
  } else {
    item.kind = Value::Kind::map;
    item.entries.push_back({name, member.where, std::move(parameters)});
  }
  return item;
}

}  // namespace trainer
