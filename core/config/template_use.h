// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/config/expression.h"
#include "core/config/template_table.h"

namespace trainer {

/// One item of a list of layers, taken apart: `- LAYER: {...}` with `when` and `repeat` beside it.
struct Item {
  Value::Entry layer;                  ///< its name, and its parameters
  bool is_layer = false;               ///< false: not a single layer; its readers report why
  bool is_bare = false;                ///< just a name
  bool is_empty = false;               ///< there is nothing beside `when` or `repeat`
  const Value::Entry* when = nullptr;  ///< parts of the original value
  const Value::Entry* repeat = nullptr;
  const Value::Entry* stray = nullptr;  ///< `when` or `repeat` misspelt
};

/// The keys that are allowed beside a layer's: `when` and `repeat`.
const std::vector<std::string>& controls();
bool is_control(const std::string& key);

/// `is_name`: whether a layer or a template is called so. The result points into `written`.
Item take_apart(const Value& written, const std::function<bool(const std::string&)>& is_name);

/// Fills `scope` from the parameters of a use of `made` and the defaults; false after an error.
bool read_use(const Template& made, const Value& parameters, const Origin& origin, Scope& scope,
              Reading& reading);

}  // namespace trainer
