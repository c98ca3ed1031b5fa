// SPDX-License-Identifier: Apache-2.0
#include "core/text/byte_level_bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "core/base/error.h"
#include "core/text/bpe.h"
#include "core/text/byte_level.h"
#include "core/text/normal_form.h"
#include "core/text/utf8.h"

namespace trainer {

// https://github.com/openai/gpt-2, src/encoder.py
const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

/// No vocabulary is this large; a table of all tokens is kept.
constexpr int32_t kMostTokens = 1 << 24;

/// Looks up a std::string by a view.
struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the name that the library looks for
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T>
using ByText = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

class ByteLevelBpe final : public Tokenizer {
 public:
  explicit ByteLevelBpe(ByteLevelBpeParts parts) : parts_(std::move(parts)) {
    take_vocabulary();
    take_merges();
    take_added();
  }

  std::string_view name() const override { return "byte-level BPE"; }
  int64_t vocabulary() const override { return static_cast<int64_t>(texts_.size()); }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  uint64_t checksum() const override { return parts_.checksum; }
  std::unique_ptr<TextEncoder> make_encoder() const override;

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) text += texts_.at(static_cast<size_t>(token));
    return text;
  }

  /// Calls `word` with each word and `found` with each added token.
  void cut(std::string_view text, const PieceSink& word, const std::function<void(int32_t)>& found) const {
    const auto normalized = [&](std::string_view part) {
      std::string storage;
      after_normalization_.cut(
          parts_.composes ? composed(part, storage) : part,
          [&](std::string_view piece) { parts_.pre_tokenizer.cut(piece, word); }, found);
    };
    before_normalization_.cut(text, normalized, found);
  }

  void encode_word(std::string_view word, std::vector<int32_t>& tokens) const {
    if (parts_.ignores_merges) {
      if (const auto whole = by_bytes_.find(word); whole != by_bytes_.end())
        return tokens.push_back(whole->second);
    }
    bpe_->encode(word, tokens);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ExitCode::data, fmt::format("{}: {}", parts_.path, problem));
  }

  void set_text(int32_t token, std::string text) {
    if (token < 0 || token >= kMostTokens)
      fail(fmt::format("expected tokens from 0 to {}, found {}", kMostTokens - 1, token));
    const auto place = static_cast<size_t>(token);
    if (place >= texts_.size()) texts_.resize(place + 1);
    texts_[place] = std::move(text);
  }

  void take_vocabulary() {
    for (const auto& [text, token] : parts_.vocabulary) {
      const std::optional<std::string> bytes = bytes_of_token(text);
      set_text(token, bytes.value_or(text));
      if (bytes && !by_bytes_.emplace(*bytes, token).second)
        fail(fmt::format("expected the token '{}' once", text));
    }
    std::array<int32_t, 256> of_bytes{};
    for (size_t byte = 0; byte < of_bytes.size(); ++byte) {
      const auto found = by_bytes_.find(std::string(1, static_cast<char>(byte)));
      if (found == by_bytes_.end()) {
        throw Error(ExitCode::recipe,
                    fmt::format("{}: expected a token for each byte, found none for 0x{:02x}; use a "
                                "byte-level tokenizer with all of them",
                                parts_.path, byte));
      }
      of_bytes[byte] = found->second;
    }
    bpe_.emplace(of_bytes);
  }

  void take_merges() {
    int32_t rank = 0;
    for (const auto& [left, right] : parts_.merges)
      bpe_->add(token_of(left), token_of(right), {.rank = rank++, .token = token_of(left + right)});
    parts_.merges = {};
  }

  int32_t token_of(const std::string& text) const {
    const std::optional<std::string> bytes = bytes_of_token(text);
    const auto found = bytes ? by_bytes_.find(*bytes) : by_bytes_.end();
    if (found == by_bytes_.end()) fail(fmt::format("expected a token '{}', of which a merge speaks", text));
    return found->second;
  }

  void take_added() {
    end_of_text_ = find_end_of_text();
    std::vector<AddedToken> before, after;
    for (AddedToken& added : parts_.added) {
      if (added.text.empty()) continue;
      set_text(added.token, added.text);
      std::string storage;
      if (added.is_normalized && parts_.composes) added.text = std::string(composed(added.text, storage));
      if (!added.text.empty()) (added.is_normalized ? after : before).push_back(std::move(added));
    }
    before_normalization_ = AddedTokens(std::move(before));
    after_normalization_ = AddedTokens(std::move(after));
    parts_.added = {};
    parts_.vocabulary = {};
  }

  /// By the names that published tokenizers give the token.
  std::optional<int32_t> find_end_of_text() const {
    for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
      const auto added = std::ranges::find(parts_.added, name, &AddedToken::text);
      if (added != parts_.added.end()) return added->token;
      if (const auto found = by_bytes_.find(std::string_view(name)); found != by_bytes_.end())
        return found->second;
    }
    return std::nullopt;
  }

  ByteLevelBpeParts parts_;
  std::vector<std::string> texts_;  ///< bytes, by token
  ByText<int32_t> by_bytes_;
  std::optional<Bpe> bpe_;
  AddedTokens before_normalization_, after_normalization_;
  std::optional<int32_t> end_of_text_;
};

class ByteLevelEncoder final : public TextEncoder {
 public:
  explicit ByteLevelEncoder(const ByteLevelBpe& tokenizer) : tokenizer_(tokenizer) {}

  int64_t encode(std::string_view text, const TokensSink& sink) override {
    constexpr size_t kAtOnce = 4096;
    std::string fixed;
    std::vector<int32_t> tokens;
    const int64_t malformed = replace_malformed(text, fixed);
    tokenizer_.cut(
        malformed > 0 ? fixed : text,
        [&](std::string_view word) {
          add_word(word, tokens);
          if (tokens.size() < kAtOnce) return;
          sink(tokens);
          tokens.clear();
        },
        [&](int32_t token) { tokens.push_back(token); });
    sink(tokens);
    return malformed;
  }

 private:
  /// Words of a language recur; long ones, and words beyond the first tens of thousands, seldom do.
  static constexpr size_t kMostWords = 1 << 16, kLongestWord = 256;

  void add_word(std::string_view word, std::vector<int32_t>& tokens) {
    if (const auto known = words_.find(word); known != words_.end()) {
      tokens.insert(tokens.end(), known->second.begin(), known->second.end());
      return;
    }
    const size_t before = tokens.size();
    tokenizer_.encode_word(word, tokens);
    if (word.size() > kLongestWord || words_.size() == kMostWords) return;
    words_.emplace(word, std::vector(tokens.begin() + static_cast<std::ptrdiff_t>(before), tokens.end()));
  }

  const ByteLevelBpe& tokenizer_;
  ByText<std::vector<int32_t>> words_;
};

std::unique_ptr<TextEncoder> ByteLevelBpe::make_encoder() const {
  return std::make_unique<ByteLevelEncoder>(*this);
}

}  // namespace

std::unique_ptr<Tokenizer> byte_level_bpe(ByteLevelBpeParts parts) {
  return std::make_unique<ByteLevelBpe>(std::move(parts));
}

}  // namespace trainer
