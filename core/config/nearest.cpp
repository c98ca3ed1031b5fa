// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/config/fields.h"

namespace trainer {
namespace {

// One edit costs ten, a replaced letter a little more. Of two candidates one edit away, one with an extra,
// missing or swapped letter wins: `l` is more likely `lr` than `p`.
constexpr size_t kEdit = 10;
constexpr size_t kReplacement = 11;
/// A text longer than any name is not a misspelt name.
constexpr size_t kLongestName = 256;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Damerau-Levenshtein distance (optimal string alignment), ignoring case. From `enough` on any number may be
/// returned.
size_t distance(const std::string& a, const std::string& b, size_t enough) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j * kEdit;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = above;
    above = row;
    row[0] = i * kEdit;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + kEdit, row[j - 1] + kEdit, above[j - 1] + (same ? 0 : kReplacement)});
      const bool swapped =
          i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + kEdit);
    }
    // Whatever comes follows from these two rows.
    if (std::min(*std::ranges::min_element(row), *std::ranges::min_element(above)) >= enough) return enough;
  }
  return row[b.size()];
}

size_t common_prefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b, {}, lower, lower).in1 - a.begin());
}

}  // namespace

std::optional<std::string> nearest(const std::string& name, const std::vector<std::string>& candidates) {
  // The typed name itself is not a suggestion.
  if (name.size() > kLongestName || std::ranges::find(candidates, name) != candidates.end())
    return std::nullopt;
  const size_t edits = std::max<size_t>(1, name.size() / 3);
  std::optional<std::string> best;
  size_t best_cost = edits * kReplacement + 1;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(name.size(), candidate.size());
    const size_t shorter = std::min(name.size(), candidate.size());
    if (name.empty() || longer - shorter > edits) continue;
    const size_t cost = distance(name, candidate, best_cost + 1);
    const bool nearer = cost < best_cost || (cost == best_cost && best &&
                                             common_prefix(name, candidate) > common_prefix(name, *best));
    if (nearer) best = candidate, best_cost = cost;
  }
  return best;
}

}  // namespace trainer
