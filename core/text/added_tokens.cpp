// SPDX-License-Identifier: Apache-2.0
#include "core/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "core/text/utf8.h"

namespace trainer {
namespace {

uint64_t edge(size_t node, char byte) {
  return (uint64_t{node} << 8U) | static_cast<unsigned char>(byte);
}

/// Where the white space before `end` begins, at `least` at the earliest.
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

void AddedTokens::add(AddedToken token) {
  size_t node = 0;
  for (const char byte : token.text) {
    const auto [found, is_new] = next_.try_emplace(edge(node, byte), ends_.size());
    if (is_new) ends_.push_back(kNoToken);
    node = found->second;
  }
  ends_[node] = tokens_.size();
  tokens_.push_back(std::move(token));
}

size_t AddedTokens::longest_at(std::string_view text, size_t at) const {
  size_t longest = kNoToken, node = 0;
  for (; at < text.size(); ++at) {
    const auto found = next_.find(edge(node, text[at]));
    if (found == next_.end()) break;
    node = found->second;
    if (ends_[node] != kNoToken) longest = ends_[node];
  }
  return longest;
}

void AddedTokens::cut(std::string_view text, const std::function<void(std::string_view)>& between,
                      const std::function<void(int32_t token)>& found) const {
  size_t done = 0;
  for (size_t at = 0; !tokens_.empty() && at < text.size();) {
    const size_t number = longest_at(text, at);
    if (number == kNoToken) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[number];
    const size_t begin = token.takes_blanks_before ? blanks_before(text, done, at) : at;
    at += token.text.size();
    if (begin > done) between(text.substr(done, begin - done));
    found(token.token);
    done = token.takes_blanks_behind ? blanks_behind(text, at) : at;
    at = std::max(at, done);
  }
  if (done < text.size()) between(text.substr(done));
}

}  // namespace trainer
