// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainer {

/// A text that is one token wherever it stands, "<|endoftext|>".
struct AddedToken {
  std::string text;
  int32_t token = 0;
  bool takes_blanks_before = false, takes_blanks_behind = false;  ///< white space belongs to it
  bool is_normalized = false;  ///< looked for after normalization, not before
};

/// Finds such texts: at each place the longest, from left to right.
class AddedTokens {
 public:
  void add(AddedToken token);

  /// Calls `between` with each part of the text that holds none, and `found` with each token, in their order.
  void cut(std::string_view text, const std::function<void(std::string_view)>& between,
           const std::function<void(int32_t token)>& found) const;

 private:
  static constexpr size_t kNoToken = SIZE_MAX;
  /// The number of the longest one that begins there, or kNoToken.
  size_t longest_at(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<uint64_t, size_t> next_;  ///< of a trie's node and a byte, the next node; 0 is the root
  std::vector<size_t> ends_{kNoToken};         ///< by node, the token that ends there
};

}  // namespace trainer
