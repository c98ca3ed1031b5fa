// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/value_path.h"

#include <algorithm>

namespace trainer {

const Value::Entry* find_path(const Value& root, const std::string& path) {
  const Value* at = &root;
  const Value::Entry* found = nullptr;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    const auto entry = std::find_if(at->entries.begin(), at->entries.end(),
                                    [&](const Value::Entry& candidate) { return candidate.key == key; });
    if (entry == at->entries.end()) return nullptr;
    found = &*entry;
    at = &entry->value;
    begin = end + 1;
  }
  return found;
}

Value* find_section(Value& root, const std::string& key) {
  for (Value::Entry& entry : root.entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

}  // namespace trainer
