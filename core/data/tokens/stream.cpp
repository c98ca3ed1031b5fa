// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "core/base/checksum.h"
#include "core/data/data_error.h"
#include "core/data/tokens/shards.h"

namespace trainer {
namespace {

constexpr size_t kHeaderBytes = kShardHeaderNumbers * sizeof(int32_t);

int64_t number_at(std::span<const std::byte> bytes, size_t offset) {
  int32_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

TokenPiece map_file(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  if (file->bytes().empty()) fail_in_file(path, 0, "tokens", "an empty file");
  return {.path = path, .file = file, .bytes = file->bytes()};
}

/// Leaves the tokens of a shard that begins with a header.
void take_header(TokenPiece& shard, const ShardHeader& header) {
  const int64_t version = number_at(shard.bytes, 4), count = number_at(shard.bytes, 8);
  if (version != header.version) {
    fail_in_file(shard.path, 4, fmt::format("version {} of a shard's header", header.version),
                 std::to_string(version));
  }
  const auto size = static_cast<int64_t>(shard.bytes.size() - kHeaderBytes);
  if (count < 1 || count * header.width != size) {
    fail_in_file(shard.path, 8, fmt::format("the number of tokens in the {} bytes after the header", size),
                 std::to_string(count));
  }
  shard.bytes = shard.bytes.subspan(kHeaderBytes);
  shard.offset = kHeaderBytes;
  shard.width = header.width;
}

TokenPiece open_shard(const std::string& path, int64_t width) {
  TokenPiece shard = map_file(path);
  shard.width = width;
  for (const ShardHeader& header : {kNarrowShard, kWideShard}) {
    if (shard.bytes.size() < kHeaderBytes || number_at(shard.bytes, 0) != header.magic) continue;
    take_header(shard, header);
    return shard;
  }
  if (const auto size = static_cast<int64_t>(shard.bytes.size()); size % width != 0)
    fail_in_file(path, size, fmt::format("tokens of {} bytes each", width), "the end of the file");
  return shard;
}

template <class Number>
void widen(std::span<const std::byte> bytes, std::span<int32_t> into) {
  for (size_t i = 0; i < into.size(); ++i) {
    Number number = 0;
    std::memcpy(&number, bytes.data() + i * sizeof(Number), sizeof(Number));
    into[i] = static_cast<int32_t>(number);
  }
}

/// Of one piece, from its token `begin` on.
void read_piece(const TokenPiece& piece, int64_t begin, int64_t vocabulary, std::span<int32_t> into) {
  const auto bytes = piece.bytes.subspan(static_cast<size_t>(begin * piece.width));
  if (piece.width == 1) widen<uint8_t>(bytes, into);
  if (piece.width == 2) widen<uint16_t>(bytes, into);
  if (piece.width == 4) widen<uint32_t>(bytes, into);
  if (piece.file) piece.file->require_intact();
  for (size_t i = 0; i < into.size(); ++i) {
    // A value above 31 bits has become negative.
    if (into[i] >= 0 && into[i] < vocabulary) continue;
    fail_in_file(piece.path, piece.offset + (begin + static_cast<int64_t>(i)) * piece.width,
                 fmt::format("a token below {}, the network's outputs", vocabulary),
                 std::to_string(static_cast<uint32_t>(into[i])));
  }
}

}  // namespace

TokenStream::TokenStream(std::vector<TokenPiece> pieces) : pieces_(std::move(pieces)) {
  for (const TokenPiece& piece : pieces_) ends_.push_back(size() + piece.size());
}

size_t TokenStream::piece_at(int64_t token) const {
  return static_cast<size_t>(std::ranges::upper_bound(ends_, token) - ends_.begin());
}

void TokenStream::read(int64_t begin, int64_t vocabulary, std::span<int32_t> into) const {
  for (size_t piece = piece_at(begin); !into.empty(); ++piece) {
    const int64_t first = ends_[piece] - pieces_[piece].size();
    const auto count = std::min(into.size(), static_cast<size_t>(ends_[piece] - begin));
    read_piece(pieces_[piece], begin - first, vocabulary, into.first(count));
    into = into.subspan(count);
    begin = ends_[piece];
  }
}

/// Pieces from all over the stream: few enough to read from a network disk within a second.
Fingerprint TokenStream::fingerprint() const {
  constexpr int64_t kPlaces = 64, kTokens = 256;
  Checksum contents;
  std::array<int32_t, kTokens> tokens{};
  for (int64_t i = 0; i < kPlaces; ++i) {
    const int64_t begin = std::max<int64_t>(0, size() - kTokens) * i / (kPlaces - 1);
    const auto count = static_cast<size_t>(std::min(kTokens, size()));
    read(begin, int64_t{1} << 31, std::span(tokens).first(count));
    contents.add(std::as_bytes(std::span(tokens).first(count)));
  }
  return {{fingerprint_name::kTokens, std::to_string(size())},
          {fingerprint_name::kContents, fmt::format("{:016x}", contents.value())}};
}

int64_t TokenStream::resident_bytes() const {
  int64_t sum = 0;
  for (const TokenPiece& piece : pieces_)
    sum += piece.is_resident() ? static_cast<int64_t>(piece.bytes.size()) : 0;
  return sum;
}

TokenStream open_token_shards(const std::vector<std::string>& paths, int64_t width) {
  std::vector<TokenPiece> pieces;
  for (const std::string& path : paths) pieces.push_back(open_shard(path, width));
  return TokenStream(std::move(pieces));
}

TokenPiece open_text_piece(const std::string& path) {
  TokenPiece piece = map_file(path);
  piece.width = 1;
  return piece;
}

}  // namespace trainer
