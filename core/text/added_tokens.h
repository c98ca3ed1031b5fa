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

/// A text that is one token wherever it occurs, "<|endoftext|>".
struct AddedToken {
  std::string text;  ///< not empty
  int32_t token = 0;
  bool takes_blanks_before = false, takes_blanks_behind = false;  ///< it includes adjacent white space
  bool is_normalized = false;  ///< searched for after normalization, not before
};

/// Finds these texts: at each position the longest, from left to right, in time linear in the text.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  /// Calls `between` with each part of the text without tokens, and `found` with each token, in their order.
  void cut(std::string_view text, const std::function<void(std::string_view)>& between,
           const std::function<void(int32_t token)>& found) const;

 private:
  static constexpr size_t kNoToken = SIZE_MAX;
  /// The longest token that begins at a place of a text.
  struct Match {
    size_t begin, number;
  };
  /// A node of the trie of all texts, read backwards.
  struct TrieNode {
    size_t parent = 0, depth = 0;
    char byte = 0;
    size_t longest = kNoToken;  ///< of the tokens at the end of the text read so far, read backwards
    /// The node of the longest proper suffix of the text read so far that is in the trie
    size_t fallback = 0;
  };

  void insert(size_t number);
  void link();
  /// The node after one more byte.
  size_t step(size_t node, char byte) const;
  /// From left to right; no match begins at other positions.
  std::vector<Match> matches(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<uint64_t, size_t> next_;  ///< of a node and a byte, the next node; 0 is the root
  std::vector<TrieNode> nodes_{TrieNode()};
};

}  // namespace trainer
