// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/config/document.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

/// One step from a value to one inside it: a key of a map or an index into a list.
struct Step {
  std::string key;
  std::optional<size_t> index;
  int column;        // in the argument, from 1
  std::string from;  // the path of the value that it starts from
};

struct Refused {
  int column;
  std::string text;
};

/// `[2]` at `at` in `path`; moves `at` past it.
size_t read_index(const std::string& path, size_t& at) {
  size_t index = 0;
  const char* start = path.data() + at + 1;
  const auto [end, status] = std::from_chars(start, path.data() + path.size(), index);
  const bool closed = status == std::errc{} && end != path.data() + path.size() && *end == ']';
  if (!closed) throw Refused{static_cast<int>(at) + 1, "expected an index such as [2]"};
  at = static_cast<size_t>(end - path.data()) + 1;
  return index;
}

std::vector<Step> read_steps(const std::string& path) {
  std::vector<Step> steps;
  size_t at = 0;
  while (true) {
    const size_t end = std::min(path.find_first_of(".[", at), path.size());
    const int column = static_cast<int>(at) + 1;
    if (end == at) throw Refused{column, "expected a key, found none; write section.key=value"};
    steps.push_back({path.substr(at, end - at), std::nullopt, column, path.substr(0, at == 0 ? 0 : at - 1)});
    at = end;
    while (at < path.size() && path[at] == '[') {
      const size_t start = at;
      const size_t index = read_index(path, at);
      steps.push_back({"", index, static_cast<int>(start) + 1, path.substr(0, start)});
    }
    if (at == path.size()) return steps;
    if (path[at] != '.') throw Refused{static_cast<int>(at) + 1, "expected '.' or '[' after an index"};
    ++at;
  }
}

std::string found(const Step& step, const Value& value) {
  const std::string name = step.from.empty() ? "the recipe" : "'" + shown(step.from) + "'";
  const std::string place = value.where.line > 0 ? " (" + to_string(value.where) + ")" : "";
  return fmt::format("{} is {}{}", name, describe(value), place);
}

Value& enter_list(Value& value, const Step& step) {
  if (value.kind != Value::Kind::list) throw Refused{step.column, found(step, value) + ", not a list"};
  if (*step.index < value.items.size()) return value.items[*step.index];
  const std::string extent =
      value.items.empty() ? "is empty" : fmt::format("has [0] to [{}]", value.items.size() - 1);
  throw Refused{step.column,
                fmt::format("index {} is out of range: '{}' {}", *step.index, shown(step.from), extent)};
}

/// A section that is only a word, `optimizer: adam`, becomes {name: adam}, which has room for other keys.
void name_component(Value& word) {
  Value section;
  section.kind = Value::Kind::map;
  section.where = word.where;
  section.entries.push_back({"name", word.where, std::move(word)});
  word = std::move(section);
}

/// A component of a list that is only its name, `- relu`, becomes {relu: }, the form that messages show.
void write_out_name(Value& word) {
  Value item;
  item.kind = Value::Kind::map;
  item.where = word.where;
  item.entries.push_back({word.text, word.where, {}});
  item.entries.back().value.where = word.where;
  word = std::move(item);
}

Value::Entry& enter_map(Value& value, const Step& step, const Location& where) {
  if (value.kind == Value::Kind::null) {
    value = Value{};
    value.kind = Value::Kind::map;
    value.where = where;
  }
  if (value.kind == Value::Kind::scalar && step.from.find('.') == std::string::npos) name_component(value);
  if (value.kind == Value::Kind::scalar && value.text == step.key && step.from.ends_with(']'))
    write_out_name(value);
  if (value.kind != Value::Kind::map) {
    throw Refused{step.column, fmt::format("{}, which has no key '{}'; to replace it write {}={{...}}",
                                           found(step, value), shown(step.key), shown(step.from))};
  }
  for (Value::Entry& entry : value.entries) {
    if (entry.key == step.key) return entry;
  }
  value.entries.push_back({step.key, where, {}});
  value.entries.back().value.where = where;
  return value.entries.back();
}

void set(Value& root, const std::vector<Step>& steps, Value given, int number) {
  Value* at = &root;
  for (const Step& step : steps) {
    if (step.index) {
      at = &enter_list(*at, step);
      continue;
    }
    const Location where{kCommandLine, number, step.column};
    Value::Entry& entry = enter_map(*at, step, where);
    if (&step == &steps.back()) entry.where = where;
    at = &entry.value;
  }
  *at = std::move(given);
}

}  // namespace

void apply_override(Value& root, const std::string& argument, int number, Diagnostics& diagnostics) {
  const auto place = [number](int column) { return Location{kCommandLine, number, column}; };
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    diagnostics.error(place(1), "", fmt::format("expected section.key=value, found '{}'", shown(argument)));
    return;
  }
  const std::string path = argument.substr(0, equals);
  try {
    const std::vector<Step> steps = read_steps(path);
    const int offset = static_cast<int>(equals) + 1;
    const Placing in_value = [&](int, int column) { return place(offset + column); };
    const size_t problems = diagnostics.problems().size();
    std::optional<Value> value =
        parse_document(argument.substr(equals + 1), in_value, shown(path), diagnostics);
    if (diagnostics.problems().size() != problems) return;
    if (!value) value.emplace().where = place(offset);
    Value changed = root;  // a refused argument leaves no partial maps
    set(changed, steps, std::move(*value), number);
    root = std::move(changed);
  } catch (const Refused& refused) {
    diagnostics.error(place(refused.column), "", refused.text);
  }
}

}  // namespace trainer
