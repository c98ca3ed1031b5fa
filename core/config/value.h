// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace trainer {

/// The text for the places of overrides, in place of a file name.
constexpr const char* kCommandLine = "command line";

/// One value of a recipe and its place. Map entries keep their order; keys are unique once parsed.
struct Value {
  enum class Kind { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;       ///< a scalar's text with `${env:NAME}` expanded
  std::string raw;        ///< the same as it was written
  bool quoted = false;    ///< "1" in quotes is text, never a number
  bool reported = false;  ///< its error has been reported: readers skip it silently
  Location where;
  std::vector<Value> items;    ///< of a list
  std::vector<Entry> entries;  ///< of a map

  /// The entry's value, or nullptr.
  const Value* find(const std::string& key) const;
};

struct Value::Entry {
  std::string key;
  Location where;  ///< of the key
  Value value;
};

/// Parses one YAML document; an empty one is an empty map. Reports, each at its place: duplicate keys,
/// nesting deeper than 64, more than 100,000 keys and values after alias expansion, undefined environment
/// variables and syntax errors. An unreadable value is null and `reported`.
Value parse_yaml(const std::string& text, const std::string& file, Diagnostics& diagnostics);

/// Reads and parses a file. If it cannot be read, that is an error at `mentioned_at`, which calls it `name`
/// unless that is empty.
Value load_yaml(const std::string& path, const Location& mentioned_at, Diagnostics& diagnostics,
                const std::string& name = "");

/// Sets one key from a command line argument `a.b[2].c=value` (the value is YAML, flow style). Creates
/// missing maps on the way; `number` is the argument's position, for messages. An argument with an error
/// changes nothing.
void apply_override(Value& root, const std::string& argument, int number, Diagnostics& diagnostics);

/// YAML text that parses back to the same values, using `raw` if set. With `sources`, each leaf is
/// followed by a comment that says where it came from: the place of its key.
std::string to_yaml(const Value& value, bool sources);

/// The same on one line, as overrides are written.
std::string to_flow(const Value& value);

/// The values that to_yaml writes on one line each, by path: `optimizer.lr` is "0.1", `model.layers[2]` is
/// "relu".
std::map<std::string, std::string> leaves(const Value& value);

}  // namespace trainer
