// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/config/reading.h"
#include "core/config/value.h"

namespace trainer {

/// Whether the name is among them.
inline bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// A named block of layers as a recipe defines it: `NAME: {arguments: {a: , b: 1}, layers: [...]}`.
struct Template {
  struct Argument {
    std::string name;
    Location where;
    std::optional<std::string> fallback;  ///< its value if a use gives none; nullopt: required
  };

  std::string name;
  Location where;
  std::vector<Argument> arguments;
  const Value* layers = nullptr;
  bool is_broken = false;  ///< it is wrong and was reported: its uses are skipped
  bool is_used = false;

  const Argument* find(const std::string& argument) const;
};

/// The templates of a network, in order. Unknown names in uses are recorded, to distinguish a misspelt
/// definition from misspelt uses.
class TemplateTable {
 public:
  /// Reads the map `templates`, which must outlive this; `taken` are names that a template may not have.
  TemplateTable(const Value* templates, const std::string& path, const std::vector<std::string>& taken,
                Reading& reading);

  Template* find(const std::string& name);
  /// Notes that `origin` uses `name`, which is neither a template nor in `taken`.
  void miss(const std::string& name, const Origin& origin, Reading& reading);
  /// Reports unused templates if a name like theirs is missing in several places; for one place the use
  /// itself is reported.
  void finish(Reading& reading) const;

 private:
  void read_template(const Value::Entry& entry, Reading& reading);
  static void read_parts(Template& made, const Value& parts, const std::string& path, Reading& reading);
  static void read_layers(Template& made, const Value::Entry& entry, const std::string& path,
                          Reading& reading);
  static bool read_arguments(Template& made, const Value::Entry& entry, const std::string& path,
                             Reading& reading);
  static void check_names(Template& made, const std::string& path, Reading& reading);

  std::string path_;
  const std::vector<std::string>& taken_;
  bool is_readable_ = true;
  std::vector<Template> templates_;
  std::map<std::string, size_t> places_;                 // in templates_, by name
  std::map<std::string, std::set<std::string>> missed_;  // names, and where they are used
};

}  // namespace trainer
