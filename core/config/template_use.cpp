// SPDX-License-Identifier: Apache-2.0
#include "core/config/template_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/fields.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

bool read_argument(const Template& made, const Value::Entry& entry, const std::string& path,
                   Reading::Unknown& unknown, Scope& scope, Reading& reading) {
  const Value& value = entry.value;
  const bool is_scalar = value.kind == Value::Kind::scalar;
  if (value.reported) return false;
  if (made.find(entry.key) != nullptr) {
    scope[entry.key] = value.text;
    if (is_scalar && !value.quoted && is_number_or_truth(value.text)) return true;
    reading.error(entry.where, path, "expected a number, true or false, found " + describe(value));
  } else if (entry.key == "name") {
    if (is_scalar) return true;
    reading.error(entry.where, path, "expected text, found " + describe(value));
  } else if (entry.key == "inputs") {
    if (value.items.size() == 1 && value.items[0].kind == Value::Kind::scalar) return true;
    reading.error(entry.where, path, "expected a list of one name: a template takes one input");
  } else {
    unknown.where = entry.where;
    unknown.key = entry.key;
    reading.unknown(unknown);
  }
  return false;
}

/// The first of several keys that is neither a layer nor a control, but nearly one that is not given.
const Value::Entry* find_stray(const Value& written, const std::vector<const Value::Entry*>& others,
                               const std::function<bool(const std::string&)>& is_name) {
  std::vector<std::string> absent;
  for (const std::string& control : controls()) {
    if (written.find(control) == nullptr) absent.push_back(control);
  }
  for (const Value::Entry* other : others) {
    if (!is_name(other->key) && nearest(other->key, absent)) return other;
  }
  return nullptr;
}

}  // namespace

const std::vector<std::string>& controls() {
  static const std::vector<std::string> names = {"when", "repeat"};
  return names;
}

bool is_control(const std::string& key) {
  return std::find(controls().begin(), controls().end(), key) != controls().end();
}

Item take_apart(const Value& written, const std::function<bool(const std::string&)>& is_name) {
  Item item;
  if (written.kind == Value::Kind::scalar) {
    item.layer = {written.text, written.where, {}};
    item.layer.value.where = written.where;
    item.is_bare = item.is_layer = true;
    return item;
  }
  std::vector<const Value::Entry*> others;
  for (const Value::Entry& entry : written.entries) {
    if (entry.key == "when") item.when = &entry;
    if (entry.key == "repeat") item.repeat = &entry;
    if (!is_control(entry.key)) others.push_back(&entry);
  }
  item.is_empty = others.empty() && !written.entries.empty();
  item.is_layer = others.size() == 1;
  if (item.is_layer) item.layer = *others[0];
  if (others.size() > 1) item.stray = find_stray(written, others, is_name);
  return item;
}

bool read_use(const Template& made, const Value& parameters, const Origin& origin, Scope& scope,
              Reading& reading) {
  if (parameters.reported) return false;
  if (parameters.kind != Value::Kind::map && parameters.kind != Value::Kind::null) {
    reading.error(origin, fmt::format("expected a map of arguments, found {}", describe(parameters)));
    return false;
  }
  bool right = true;
  Reading::Unknown unknown{{}, origin.path, "", {}, {}};
  for (const Template::Argument& argument : made.arguments) {
    const bool is_given = parameters.find(argument.name) != nullptr;
    reading.declared({origin.path, argument.name, is_given});
    (is_given ? unknown.given : unknown.absent).push_back(argument.name);
    if (argument.fallback) scope[argument.name] = *argument.fallback;
    if (is_given || argument.fallback) continue;
    const Location& where = parameters.where.line > 0 ? parameters.where : origin.where;
    reading.missing({where, origin.path, argument.name, "a number, true or false"});
    right = false;
  }
  for (const char* key : {"name", "inputs"}) {
    (parameters.find(key) ? unknown.given : unknown.absent).emplace_back(key);
  }
  for (const Value::Entry& entry : parameters.entries) {
    if (!read_argument(made, entry, join_path(origin.path, shown(entry.key)), unknown, scope, reading))
      right = false;
  }
  return right;
}

}  // namespace trainer
