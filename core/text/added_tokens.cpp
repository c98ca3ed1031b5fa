// SPDX-License-Identifier: Apache-2.0
#include "core/text/added_tokens.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/text/utf8.h"

namespace trainer {
namespace {

uint64_t edge(size_t node, char byte) {
  return (uint64_t{node} << 8U) | static_cast<unsigned char>(byte);
}

/// Start of the white space before `end`, but at least `least`.
size_t blanks_before(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t begin = end - 1;
    while (begin > least && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
    size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) return end;
    end = begin;
  }
  return end;
}

size_t blanks_behind(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) return begin;
    begin = at;
  }
  return begin;
}

}  // namespace

// Aho and Corasick, "Efficient string matching: an aid to bibliographic search", 1975. Texts are read
// backwards: a match that ends at a position then begins there in the text, and the longest needs no second
// look.
AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t number = 0; number < tokens_.size(); ++number) insert(number);
  link();
}

void AddedTokens::insert(size_t number) {
  const std::string& text = tokens_[number].text;
  size_t node = 0;
  for (const char byte : std::string(text.rbegin(), text.rend())) {
    const auto [found, is_new] = next_.try_emplace(edge(node, byte), nodes_.size());
    if (is_new) nodes_.push_back({.parent = node, .depth = nodes_[node].depth + 1, .byte = byte});
    node = found->second;
  }
  nodes_[node].longest = number;
}

/// A fallback is less deep than its node, so nodes are linked by their depth.
void AddedTokens::link() {
  std::vector<size_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t node) { return nodes_[node].depth; });
  for (const size_t number : order) {
    TrieNode& node = nodes_[number];
    if (node.depth > 1) node.fallback = step(nodes_[node.parent].fallback, node.byte);
    if (node.longest == kNoToken) node.longest = nodes_[node.fallback].longest;
  }
}

size_t AddedTokens::step(size_t node, char byte) const {
  for (;; node = nodes_[node].fallback) {
    if (const auto found = next_.find(edge(node, byte)); found != next_.end()) return found->second;
    if (node == 0) return 0;
  }
}

std::vector<AddedTokens::Match> AddedTokens::matches(std::string_view text) const {
  std::vector<Match> found;
  if (tokens_.empty()) return found;
  size_t node = 0;
  for (size_t at = text.size(); at-- > 0;) {
    node = step(node, text[at]);
    if (nodes_[node].longest != kNoToken) found.push_back({at, nodes_[node].longest});
  }
  std::ranges::reverse(found);
  return found;
}

void AddedTokens::cut(std::string_view text, const std::function<void(std::string_view)>& between,
                      const std::function<void(int32_t token)>& found) const {
  size_t done = 0;
  for (const Match& match : matches(text)) {
    if (match.begin < done) continue;
    const AddedToken& token = tokens_[match.number];
    const size_t begin = token.takes_blanks_before ? blanks_before(text, done, match.begin) : match.begin;
    const size_t end = match.begin + token.text.size();
    if (begin > done) between(text.substr(done, begin - done));
    found(token.token);
    done = token.takes_blanks_behind ? blanks_behind(text, end) : end;
  }
  if (done < text.size()) between(text.substr(done));
}

}  // namespace trainer
