// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/storage/safetensors.h"

namespace trainer {

/// A new name for a tensor or, if `from` ends with a dot, a new prefix, which may be empty. One `*` in `from`
/// stands for the shortest text that fits, and in `to` for the same text.
struct Rename {
  std::string from, to;
};

/// Reads `OLD=NEW`. Throws Error (exit 64) if that is not its form.
Rename parse_rename(const std::string& text);

/// Renames in the order given, each the names that the ones before have left. Throws Error (exit 64), with
/// the nearest name, if one matches nothing.
void rename_tensors(std::vector<StoredTensor>& tensors, const std::vector<Rename>& renames);

}  // namespace trainer
