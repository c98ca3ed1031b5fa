// SPDX-License-Identifier: Apache-2.0
#include "core/config/template_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/expression.h"
#include "core/config/fields.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

/// Whether an expression can use this name, and it is not reserved for uses of templates.
bool can_be_argument(const std::string& name) {
  const std::vector<std::string> reserved = {"name", "inputs", "input", "index", "true", "false"};
  try {
    return !contains(reserved, name) && names_in("${" + name + "}") == std::vector<std::string>{name};
  } catch (const BadExpression&) {
    return false;
  }
}

/// Each text below `value` that holds an expression, with the place for messages about it.
void collect_expressions(const Value& value, const Origin& origin,
                         std::vector<std::pair<const Value*, Origin>>& found) {
  if (value.kind == Value::Kind::scalar && !value.reported && has_expression(value.raw)) {
    found.emplace_back(&value, origin);
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    const Value& item = value.items[i];
    collect_expressions(item, {item.where, fmt::format("{}[{}]", origin.path, i)}, found);
  }
  for (const Value::Entry& entry : value.entries) {
    collect_expressions(entry.value, {entry.where, join_path(origin.path, shown(entry.key))}, found);
  }
}

}  // namespace

const Template::Argument* Template::find(const std::string& argument) const {
  const auto found = std::find_if(arguments.begin(), arguments.end(),
                                  [&](const Argument& one) { return one.name == argument; });
  return found == arguments.end() ? nullptr : &*found;
}

TemplateTable::TemplateTable(const Value* templates, const std::string& path,
                             const std::vector<std::string>& taken, Reading& reading)
    : path_(path), taken_(taken) {
  if (templates == nullptr) return;
  is_readable_ =
      !templates->reported && (templates->kind == Value::Kind::map || templates->kind == Value::Kind::null);
  for (const Value::Entry& entry : templates->entries) read_template(entry, reading);
}

Template* TemplateTable::find(const std::string& name) {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &templates_[found->second];
}

void TemplateTable::read_template(const Value::Entry& entry, Reading& reading) {
  const std::string path = join_path(path_, shown(entry.key));
  reading.declared({path_, entry.key, true});
  places_.emplace(entry.key, templates_.size());
  Template& made = templates_.emplace_back();
  made.name = entry.key;
  made.where = entry.where;
  made.is_broken = true;
  if (contains(taken_, entry.key)) {
    return reading.error(entry.where, path,
                         fmt::format("a layer is called '{}'; choose another name", shown(entry.key)));
  }
  if (entry.value.reported) return;
  if (entry.value.kind != Value::Kind::map) {
    return reading.error(entry.where, path,
                         "expected a map with `arguments` and `layers`, found " + describe(entry.value));
  }
  made.is_broken = false;
  read_parts(made, entry.value, path, reading);
}

void TemplateTable::read_parts(Template& made, const Value& parts, const std::string& path,
                               Reading& reading) {
  Reading::Unknown unknown{{}, path, "", {}, {}};
  for (const char* key : {"arguments", "layers"}) {
    const bool is_given = parts.find(key) != nullptr;
    reading.declared({path, key, is_given});
    (is_given ? unknown.given : unknown.absent).emplace_back(key);
  }
  bool arguments_are_known = true;
  for (const Value::Entry& part : parts.entries) {
    if (part.key == "arguments") {
      arguments_are_known = read_arguments(made, part, path + ".arguments", reading);
    } else if (part.key == "layers") {
      read_layers(made, part, path + ".layers", reading);
    } else {
      unknown.where = part.where;
      unknown.key = part.key;
      reading.unknown(unknown);
      made.is_broken = true;
    }
  }
  if (made.layers == nullptr) made.is_broken = true;
  if (contains(unknown.absent, "layers")) {
    reading.missing({parts.where, path, "layers", "a list (the template's layers in order)"});
  }
  if (made.layers != nullptr && arguments_are_known) check_names(made, path, reading);
}

void TemplateTable::read_layers(Template& made, const Value::Entry& entry, const std::string& path,
                                Reading& reading) {
  if (entry.value.kind == Value::Kind::list) {
    made.layers = &entry.value;
  } else if (!entry.value.reported) {
    reading.error(entry.where, path, "expected a list of layers, found " + describe(entry.value));
  }
}

/// False if the arguments cannot be known.
bool TemplateTable::read_arguments(Template& made, const Value::Entry& entry, const std::string& path,
                                   Reading& reading) {
  if (entry.value.kind != Value::Kind::map && entry.value.kind != Value::Kind::null) {
    made.is_broken = true;
    if (entry.value.reported) return false;
    reading.error(entry.where, path,
                  "expected a map of arguments with their defaults, found " + describe(entry.value));
    return false;
  }
  for (const Value::Entry& argument : entry.value.entries) {
    const Value& value = argument.value;
    const Origin origin{argument.where, join_path(path, shown(argument.key))};
    const bool is_default =
        value.kind == Value::Kind::scalar && !value.quoted && is_number_or_truth(value.text);
    made.arguments.push_back({argument.key, argument.where, std::nullopt});
    if (is_default) made.arguments.back().fallback = value.text;
    reading.declared({path, argument.key, true});
    made.is_broken |= value.reported;
    if (!can_be_argument(argument.key)) {
      reading.error(origin, "an argument cannot have this name; use letters, digits and _");
      made.is_broken = true;
    } else if (!is_default && value.kind != Value::Kind::null && !value.reported) {
      reading.error(origin, fmt::format("expected a number, true, false, or nothing (required), found {}",
                                        describe(value)));
      made.is_broken = true;
    }
  }
  return true;
}

/// Reports malformed expressions and names that are not arguments, each once, for all uses of the template.
void TemplateTable::check_names(Template& made, const std::string& path, Reading& reading) {
  const std::string arguments_path = path + ".arguments";
  std::vector<std::pair<const Value*, Origin>> expressions;
  collect_expressions(*made.layers, {made.layers->where, path + ".layers"}, expressions);
  std::vector<std::string> used, missed, known;
  for (const Template::Argument& argument : made.arguments) known.push_back(argument.name);
  for (const auto& [value, origin] : expressions) {
    try {
      for (const std::string& name : names_in(value->text)) {
        used.push_back(name);
        if (contains(known, name) || contains(missed, name) || name == "index") continue;
        missed.push_back(name);
        reading.declared({arguments_path, name, false});
        reading.missing({made.where, arguments_path, name, "", origin,
                         fmt::format("unknown name '{}'{}", name, suggestion(name, known))});
      }
    } catch (const BadExpression& bad) {
      reading.error(origin, bad.text);
      made.is_broken = true;
    }
  }
  for (const Template::Argument& argument : made.arguments) {
    if (contains(used, argument.name) || !nearest(argument.name, missed)) continue;
    reading.unknown({argument.where, arguments_path, argument.name, missed, {}});
  }
  made.is_broken |= !missed.empty();
}

void TemplateTable::miss(const std::string& name, const Origin& origin, Reading& reading) {
  if (!is_readable_) return;
  std::vector<std::string> known = taken_;
  for (const Template& one : templates_) known.push_back(one.name);
  missed_[name].insert(to_string(origin.where));
  reading.declared({path_, name, false});
  reading.missing({origin.where, path_, name, "", origin,
                   fmt::format("unknown name '{}'{}", shown(name), suggestion(name, known))});
}

void TemplateTable::finish(Reading& reading) const {
  std::vector<std::string> missed;
  for (const auto& [name, places] : missed_) {
    if (places.size() > 1) missed.push_back(name);
  }
  for (const Template& one : templates_) {
    if (one.is_used || !nearest(one.name, missed)) continue;
    reading.unknown({one.where, path_, one.name, missed, {}});
  }
}

}  // namespace trainer
