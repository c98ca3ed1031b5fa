// SPDX-License-Identifier: Apache-2.0
#include "tests/recipe/mutation.h"

#include <algorithm>

namespace trainer {
namespace {

size_t line_start(const std::string& text, int line) {
  size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  return at;
}

/// Past the value of an entry within { }: the next comma or closing brace at its own depth.
size_t flow_end(const std::string& text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && depth-- == 0) break;
    if (c == ',' && depth == 0) break;
  }
  return at;
}

/// Past the last line that belongs to a block entry: those that are indented further, and list items.
size_t block_end(const std::string& text, size_t at, int column) {
  size_t end = std::min(text.find('\n', at), text.size());
  while (end < text.size()) {
    const size_t begin = end + 1;
    const size_t first = text.find_first_not_of(' ', begin);
    if (first == std::string::npos || text[first] == '\n' || text[first] == '#') break;
    const auto indent = static_cast<int>(first - begin) + 1;
    const bool item = text[first] == '-' && indent >= column;
    if (indent <= column && !item) break;
    end = std::min(text.find('\n', first), text.size());
  }
  return end;
}

void collect(const std::string& text, const Value& value, const std::string& path,
             std::vector<KeyPlace>& places) {
  for (size_t i = 0; i < value.items.size(); ++i) {
    const size_t first = places.size();
    collect(text, value.items[i], path + "[" + std::to_string(i) + "]", places);
    if (places.size() == first) continue;
    places[first].is_only_item = value.items.size() == 1 && value.items[i].entries.size() == 1;
    places[first].leads_item = value.items[i].entries.size() > 1;
  }
  for (const Value::Entry& entry : value.entries) {
    KeyPlace place{.key = entry.key,
                   .path = path.empty() ? entry.key : path + "." + entry.key,
                   .line = entry.where.line,
                   .column = entry.where.column};
    place.begin = line_start(text, place.line) + static_cast<size_t>(place.column) - 1;
    const std::string before =
        text.substr(line_start(text, place.line), static_cast<size_t>(place.column) - 1);
    place.in_flow = before.find('{') != std::string::npos;
    place.end = place.in_flow ? flow_end(text, place.begin) : block_end(text, place.begin, place.column);
    place.is_scalar = entry.value.kind == Value::Kind::scalar;
    places.push_back(place);
    collect(text, entry.value, place.path, places);
  }
}

std::string with_key(const std::string& text, const KeyPlace& place, const std::string& key) {
  return text.substr(0, place.begin) + key + text.substr(place.begin + place.key.size());
}

}  // namespace

std::vector<KeyPlace> find_keys(const std::string& text) {
  Diagnostics diagnostics;
  std::vector<KeyPlace> places;
  collect(text, parse_yaml(text, "text", diagnostics), "", places);
  diagnostics.throw_if_any();
  return places;
}

std::vector<Mutation> misspellings(const std::string& text, const KeyPlace& place) {
  const std::string& key = place.key;
  std::vector<std::string> wrong = {key + "x", key.substr(0, 1) + key};
  if (key.size() > 2) wrong.push_back(key.substr(0, key.size() / 2) + key.substr(key.size() / 2 + 1));
  if (key.size() > 2 && key[0] != key[1]) wrong.push_back(std::string{key[1], key[0]} + key.substr(2));
  std::vector<Mutation> mutations;
  for (const std::string& name : wrong) {
    mutations.push_back({.what = place.path + " misspelt as " + name,
                         .text = with_key(text, place, name),
                         .line = place.line,
                         .column = place.column,
                         .suggestion = key});
  }
  return mutations;
}

Mutation duplicated(const std::string& text, const KeyPlace& place) {
  const std::string entry = text.substr(place.begin, place.end - place.begin);
  const std::string glue =
      place.in_flow ? ", " : "\n" + std::string(static_cast<size_t>(place.column) - 1, ' ');
  Mutation mutation{.what = place.path + " twice",
                    .text = text.substr(0, place.end) + glue + entry + text.substr(place.end)};
  const auto lines = static_cast<int>(std::count(entry.begin(), entry.end(), '\n'));
  mutation.line = place.in_flow ? place.line : place.line + lines + 1;
  mutation.column =
      place.in_flow ? place.column + static_cast<int>(entry.size() + glue.size()) : place.column;
  return mutation;
}

Mutation wrong_type(const std::string& text, const KeyPlace& place) {
  const bool may_be_scalar = place.is_scalar || place.path == "model";
  const std::string value = may_be_scalar ? ": [{wrong: type}]" : ": wrong_type";
  return {.what = place.path + " of the wrong type",
          .text = text.substr(0, place.begin) + place.key + value + text.substr(place.end),
          .line = place.line,
          .column = place.column};
}

Mutation wrong_level(const std::string& text, const KeyPlace& place) {
  std::string entry = text.substr(place.begin, place.end - place.begin);
  std::string rest;
  if (place.in_flow) {
    size_t end = place.end, begin = place.begin;
    if (text[end] == ',') {
      end = std::min(text.find_first_not_of(' ', end + 1), text.size());
    } else if (text[begin - 1] == ' ' && text[begin - 2] == ',') {
      begin -= 2;
    }
    rest = text.substr(0, begin) + text.substr(end);
  } else {
    rest = text.substr(0, line_start(text, place.line)) + text.substr(std::min(place.end + 1, text.size()));
  }
  if (!rest.ends_with("\n")) rest += "\n";
  const auto line = static_cast<int>(std::count(rest.begin(), rest.end(), '\n')) + 1;
  return {.what = place.path + " at the top level", .text = rest + entry + "\n", .line = line, .column = 1};
}

}  // namespace trainer
