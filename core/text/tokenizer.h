// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Takes tokens in their order, some thousands at a time.
using TokensSink = std::function<void(std::span<const int32_t>)>;

/// Turns texts into tokens, in one thread. It caches words.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// Gives the sink the tokens of a whole text. Returns how many malformed parts of its UTF-8 were read as
  /// U+FFFD. Throws Error (exit 65) if the tokenizer's pattern takes too long on this text.
  virtual int64_t encode(std::string_view text, const TokensSink& sink) = 0;
  /// The same, appended to `tokens`.
  int64_t append(std::string_view text, std::vector<int32_t>& tokens);
};

/// A vocabulary and the rules by which a text becomes numbers of it. Several threads may use it at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Its kind, as messages call it: "bytes", "byte-level BPE", "SentencePiece".
  virtual std::string_view name() const = 0;
  virtual int64_t vocabulary() const = 0;  ///< one more than the highest token
  virtual std::optional<int32_t> end_of_text() const = 0;
  /// Must not outlive the tokenizer.
  virtual std::unique_ptr<TextEncoder> make_encoder() const = 0;
  /// The text's bytes, which need not be UTF-8 if the tokens begin or end within a character. Throws
  /// std::out_of_range at a token that is not below vocabulary().
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  /// Of the contents of its files; equal tokenizers in different files may differ in it.
  virtual uint64_t checksum() const = 0;

  std::vector<int32_t> encode(std::string_view text) const;
};

/// Each byte is a token; nothing ends a text.
std::unique_ptr<Tokenizer> byte_tokenizer();

/// The files of a tokenizer that a path names; their kind is found by their contents.
///   tokenizer.json (Hugging Face's, byte-level BPE)
///   vocab.json with merges.txt beside it, or encoder.json with vocab.bpe (GPT-2's)
///   a SentencePiece model
///   a folder with one of these, looked for in this order
/// Throws Error: exit 78 if there is none or its kind is unknown, 65 if it is damaged.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path);

/// The files that it reads. Throws Error (exit 78) for a folder without any.
std::vector<std::string> tokenizer_files(const std::string& path);

}  // namespace trainer
