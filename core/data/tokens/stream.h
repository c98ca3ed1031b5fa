// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/fingerprint.h"
#include "core/data/mapped_file.h"

namespace trainer {

/// Tokens of one file, little-endian numbers of 1, 2 or 4 bytes.
struct TokenPiece {
  std::string path;
  std::shared_ptr<const MappedFile> file;   ///< that `bytes` are part of, or
  std::shared_ptr<const std::string> text;  ///< this process's own memory
  std::span<const std::byte> bytes;
  int64_t offset = 0;  ///< of the first token in the file
  int64_t width = 2;   ///< bytes of a token

  bool is_resident() const { return text != nullptr; }
  int64_t size() const { return static_cast<int64_t>(bytes.size()) / width; }
};

/// The tokens of several files, one file after the other.
class TokenStream {
 public:
  explicit TokenStream(std::vector<TokenPiece> pieces);

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  const std::string& path() const { return pieces_.front().path; }  ///< of the first file
  /// Reads the tokens [begin, begin + into.size()). Throws Error (exit 65) with file and offset at one that
  /// is not below `vocabulary`.
  void read(int64_t begin, int64_t vocabulary, std::span<int32_t> into) const;
  Fingerprint fingerprint() const;
  int64_t resident_bytes() const;

 private:
  size_t piece_at(int64_t token) const;

  std::vector<TokenPiece> pieces_;
  std::vector<int64_t> ends_;  ///< of each piece, in tokens
};

/// Shards of tokens: raw numbers of 2 bytes (nanoGPT's) or 4 (`width`), or, known by its first number,
/// llm.c's header of 256 int32 (magic, version, count) before them. Throws Error: exit 65 with the offset
/// if a file is empty, odd or not as its header says, 78 if it is missing.
TokenStream open_token_shards(const std::vector<std::string>& paths, int64_t width);

/// The bytes of a text file, each byte a token. Throws Error: exit 65 if it is empty, 78 if it is
/// missing.
TokenPiece open_text_piece(const std::string& path);

}  // namespace trainer
