// SPDX-License-Identifier: Apache-2.0
#include "core/config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "core/config/field_values.h"
#include "core/config/messages.h"
#include "core/config/old_keys.h"
#include "core/config/other_names.h"
#include "core/config/reading.h"

namespace trainer {
namespace {

/// "; did you mean data.format=idx?" where a key of the section has this value among its names.
std::string hint_of(const Fields& section, const Value& value, const std::string& path) {
  if (value.kind != Value::Kind::scalar) return "";
  for (const Field& field : section.list()) {
    const bool is_name = std::ranges::find(field.names, value.text) != field.names.end();
    const auto name = is_name ? std::optional(value.text) : meant(value.text, field.names);
    if (name) return fmt::format("; did you mean {}={}?", join_path(path, field.name), *name);
  }
  return "";
}

}  // namespace

Origin Component::origin_of(const std::string& field) const {
  const auto found = written.find(field);
  if (found == written.end()) return origin;
  return {found->second, join_path(origin.path, field)};
}

Field& Fields::add(const std::string& name, Field::Target target, const std::string& help) {
  check_is_new(name);
  Field& field = fields_.emplace_back();
  field.name = name;
  field.target = target;
  field.help = help;
  keys_.push_back({&field, nullptr});
  return field;
}

Group& Fields::section(const std::string& name, const std::string& help,
                       const std::function<void(Fields&)>& declare) {
  Group& group = add_group(Group::Kind::section, name, help);
  group.section = std::make_unique<Fields>();
  declare(*group.section);
  return group;
}

Group& Fields::add_group(Group::Kind kind, const std::string& name, const std::string& help) {
  check_is_new(name);
  Group& group = groups_.emplace_back(kind, name, help);
  keys_.push_back({nullptr, &group});
  return group;
}

void Fields::put_first(const std::vector<std::string>& names) {
  auto place = keys_.begin();
  for (const std::string& name : names) {
    const auto key = std::find_if(place, keys_.end(), [&](const Key& each) { return each.name() == name; });
    if (key == keys_.end()) throw std::logic_error("the key '" + name + "' is not declared");
    std::rotate(place++, key, key + 1);
  }
}

void Fields::check_is_new(const std::string& name) const {
  for (const Key& key : keys_) {
    if (key.name() == name) {
      throw std::logic_error("the key '" + name + "' is declared twice");
    }
  }
}

Field* Fields::find_field(const std::string& name) {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field& field) { return field.name == name; });
  return found == fields_.end() ? nullptr : &*found;
}

bool Fields::refuse_old_key(const Value::Entry& entry, const std::string& path, Reading& reading) {
  const Leaf now = under_new_name({path, entry.value.text});
  const std::string name = now.path.substr(now.path.rfind('.') + 1);
  if (now.path == path || find_field(name) == nullptr) return false;
  given_[name] = {name, entry.where, entry.value};  // it is not missing as well
  const bool has_new_value = now.value != entry.value.text;
  reading.error(entry.where, path,
                fmt::format("this key is now called '{}'{}", name,
                            has_new_value ? fmt::format("; write '{}: {}'", name, now.value) : ""));
  return true;
}

Group* Fields::find_group(const std::string& name) {
  const auto found =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) { return group.name == name; });
  return found == groups_.end() ? nullptr : &*found;
}

void Fields::read(const Value& value, const std::string& path, Diagnostics& diagnostics,
                  std::map<std::string, Location>* written_out, const std::vector<std::string>& skip) {
  Reading reading;
  read(value, path, reading, skip);
  reading.finish(diagnostics);
  if (written_out) *written_out = written();
}

void Fields::read(const Value& value, const std::string& path, Reading& reading,
                  const std::vector<std::string>& skip) {
  read_map(value, path, reading, skip);
  if (reading.needs_declared()) collect(path, reading);
}

void Fields::read_map(const Value& value, const std::string& path, Reading& reading,
                      const std::vector<std::string>& skip) {
  given_.clear();
  if (value.reported) return;
  if (value.kind != Value::Kind::map && value.kind != Value::Kind::null) {
    return reading.error(value.where, path, "expected a map of keys, found " + describe(value));
  }
  std::vector<const Value::Entry*> strangers;
  for (const Value::Entry& entry : value.entries) {
    if (std::find(skip.begin(), skip.end(), entry.key) != skip.end()) continue;
    const std::string entry_path = join_path(path, entry.key);
    if (const Field* field = find_field(entry.key)) {
      read_field(*field, entry, entry_path, reading);
    } else if (Group* group = find_group(entry.key)) {
      given_[entry.key] = {entry.key, entry.where, {}};
      read_group(*group, entry, entry_path, reading);
    } else if (!refuse_old_key(entry, entry_path, reading)) {
      strangers.push_back(&entry);
    }
  }
  read_missing(value, path, reading);
  for (const Value::Entry* entry : strangers) {
    Reading::Unknown unknown{entry->where, path, entry->key, {}, {}};
    for (const Key& key : keys_) {
      const std::string& name = key.name();
      (given_.contains(name) ? unknown.given : unknown.absent).push_back(name);
    }
    for (const std::string& name : skip) (value.find(name) ? unknown.given : unknown.absent).push_back(name);
    reading.unknown(std::move(unknown));
  }
}

void Fields::read_field(const Field& field, const Value::Entry& entry, const std::string& path,
                        Reading& reading) {
  given_[field.name] = {field.name, entry.where, entry.value};
  read_value(field, entry.value, {entry.where, path}, reading);
}

void Fields::read_group(Group& group, const Value::Entry& entry, const std::string& path, Reading& reading) {
  if (entry.value.reported) return;
  const bool is_map = entry.value.kind == Value::Kind::map || entry.value.kind == Value::Kind::null;
  switch (group.kind) {
    case Group::Kind::component:
      return read_component(group, entry, path, reading);
    case Group::Kind::components:
      return read_components(group, entry, path, reading);
    case Group::Kind::maps:
      return read_maps(group, entry, path, reading);
    case Group::Kind::section:
      break;
  }
  if (is_map) return group.section->read_map(entry.value, path, reading, {});
  if (entry.value.kind == Value::Kind::scalar && group.section->read_bare(entry, path, reading)) return;
  reading.error(
      entry.where, path,
      "expected a map of keys, found " + describe(entry.value) + hint_of(*group.section, entry.value, path));
}

/// Reports missing required keys, also those in omitted sections.
void Fields::read_missing(const Value& value, const std::string& path, Reading& reading) {
  for (const Field& field : fields_) {
    if (!field.is_required || given_.contains(field.name)) continue;
    reading.missing({value.where, path, field.name, fmt::format("{} ({})", field.type_text(), field.help)});
  }
  for (Group& group : groups_) {
    if (given_.contains(group.name)) continue;
    if (group.is_required) {
      reading.missing({value.where, path, group.name,
                       fmt::format("a {} ({})", group.is_list() ? "list" : "map", group.help)});
    } else if (group.section) {
      Value empty;
      empty.where = value.where;
      group.section->read_map(empty, join_path(path, group.name), reading, {});
    }
    for (size_t i = 0; i < group.members_.size(); ++i) {
      const Group::Member& member = group.members_[i];
      const std::string item = fmt::format("[{}].{}", i, member.component->chosen_as);
      member.component->origin = {
          {"default"}, join_path(path, group.name) + (group.kind == Group::Kind::components ? item : "")};
    }
  }
}

std::map<std::string, Location> Fields::written() const {
  std::map<std::string, Location> places;
  for (const auto& [key, entry] : given_) places[key] = entry.where;
  return places;
}

/// Passes the name of every possible key to `reading`, which finds out where a misplaced one belongs.
void Fields::collect(const std::string& path, Reading& reading) const {
  for (const Key& key : keys_) {
    const std::string& name = key.name();
    reading.declared({path, name, given_.contains(name)});
    if (key.field) continue;
    const std::string group_path = join_path(path, name);
    if (key.group->section) key.group->section->collect(group_path, reading);
    if (key.group->kind == Group::Kind::component)
      reading.declared({group_path, "name", key.group->is_named_});
    for (const Group::Member& member : key.group->members_) {
      const std::string& known_path = member.component->origin.path;  // of what was read
      member.fields->collect(known_path.empty() ? group_path : known_path, reading);
    }
  }
}

}  // namespace trainer
