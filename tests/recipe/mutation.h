// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/config/value.h"

namespace trainer {

/// A key in a YAML file, and the text of its whole entry.
struct KeyPlace {
  std::string key, path;
  int line = 0, column = 0;   ///< from 1
  size_t begin = 0, end = 0;  ///< of `key: value` in the text; a block's last line break is not part of it
  bool in_flow = false;       ///< within { }
  bool is_scalar = false;
  bool is_only_item = false;  ///< the one entry of the one item of a list: without it nothing is left
  bool leads_item = false;  ///< first of several keys of a list's item: the others would join the item before
};

/// Every key of the text, in order.
std::vector<KeyPlace> find_keys(const std::string& text);

/// A changed text and the place where its only error must be reported.
struct Mutation {
  std::string what;
  std::string text;
  int line = 0, column = 0;
  std::string suggestion;  ///< empty: any
};

std::vector<Mutation> misspellings(const std::string& text, const KeyPlace& place);
Mutation duplicated(const std::string& text, const KeyPlace& place);
Mutation wrong_type(const std::string& text, const KeyPlace& place);
/// The entry removed from its map and put at the end of the file, at the top level.
Mutation wrong_level(const std::string& text, const KeyPlace& place);

}  // namespace trainer
