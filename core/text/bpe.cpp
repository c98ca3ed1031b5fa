// SPDX-License-Identifier: Apache-2.0
#include "core/text/bpe.h"

#include <cstddef>
#include <functional>
#include <queue>
#include <tuple>

namespace trainer {
namespace {

constexpr int32_t kGone = -1;

/// A token of the word so far, in a list of neighbours by number. One that was merged into its left
/// neighbour is kGone.
struct BpeSymbol {
  int32_t token = 0;
  int64_t before = -1, behind = -1;
};

/// A merge that was possible when it was noted. The lowest rank comes first, then the leftmost.
struct Candidate {
  Bpe::Merge merge;
  int64_t left = 0;
  bool operator>(const Candidate& other) const {
    return std::tie(merge.rank, left) > std::tie(other.merge.rank, other.left);
  }
};

}  // namespace

void Bpe::encode(std::string_view word, std::vector<int32_t>& tokens) const {
  const auto size = static_cast<int64_t>(word.size());
  std::vector<BpeSymbol> symbols(word.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto at = [&](int64_t i) -> BpeSymbol& { return symbols[static_cast<size_t>(i)]; };
  const auto merge_at = [&](int64_t left) -> const Merge* {
    if (left < 0 || at(left).token == kGone || at(left).behind < 0) return nullptr;
    return find(at(left).token, at(at(left).behind).token);
  };
  const auto note = [&](int64_t left) {
    if (const Merge* merge = merge_at(left)) candidates.push({*merge, left});
  };
  for (int64_t i = 0; i < size; ++i)
    at(i) = {bytes_[static_cast<unsigned char>(word[static_cast<size_t>(i)])], i - 1,
             i + 1 < size ? i + 1 : -1};
  for (int64_t i = 0; i + 1 < size; ++i) note(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    const Merge* merge = merge_at(best.left);
    if (merge == nullptr || merge->rank != best.merge.rank) continue;  // a neighbour has changed since
    BpeSymbol& left = at(best.left);
    BpeSymbol& right = at(left.behind);
    left.token = merge->token;
    left.behind = right.behind;
    right.token = kGone;
    if (left.behind >= 0) at(left.behind).before = best.left;
    note(left.before);
    note(best.left);
  }
  for (const BpeSymbol& symbol : symbols) {
    if (symbol.token != kGone) tokens.push_back(symbol.token);
  }
}

}  // namespace trainer
