// SPDX-License-Identifier: Apache-2.0
#include "core/config/old_keys.h"

#include <array>
#include <utility>

namespace trainer {
namespace {

struct OldKey {
  std::string path, present_path;
  std::array<std::string, 2> values = {};  ///< if the values were texts: those that are now false and true
  bool is_in_identities = true;
};

const std::array<OldKey, 5> kOldKeys = {{
    {"attention.window", "attention.sliding_window"},
    {"data.documents", "data.mask_documents", {"join", "separate"}},
    {"embedding.vocabulary", "embedding.vocab_size"},
    {"optimizer.trust", "optimizer.trust_coefficient", {}, false},
    {"parallelism.deadline", "parallelism.timeout"},
}};

constexpr std::array<const char*, 2> kBooleans = {"false", "true"};

/// Replaces the end of a leaf's path by `to` if it is `from`.
bool replace_end(Leaf& leaf, const std::string& from, const std::string& to) {
  const bool matches = leaf.path == from || leaf.path.ends_with("." + from);
  if (matches) leaf.path.replace(leaf.path.size() - from.size(), from.size(), to);
  return matches;
}

}  // namespace

Leaf under_new_name(Leaf old) {
  for (const OldKey& row : kOldKeys) {
    if (!replace_end(old, row.path, row.present_path)) continue;
    for (size_t i = 0; i < row.values.size(); ++i) {
      if (!row.values[i].empty() && old.value == row.values[i]) return {old.path, kBooleans[i]};
    }
  }
  return old;
}

Leaf as_in_identities(Leaf present) {
  for (const OldKey& row : kOldKeys) {
    if (!row.is_in_identities || !replace_end(present, row.present_path, row.path)) continue;
    for (size_t i = 0; i < row.values.size(); ++i) {
      if (!row.values[i].empty() && present.value == kBooleans[i]) return {present.path, row.values[i]};
    }
  }
  return present;
}

}  // namespace trainer
