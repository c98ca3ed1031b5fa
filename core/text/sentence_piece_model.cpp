// SPDX-License-Identifier: Apache-2.0
#include "core/text/sentence_piece_model.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace trainer {
namespace {

[[noreturn]] void fail_in_model(const std::string& path, const std::string& expected,
                                const std::string& found) {
  throw Error(ExitCode::data, fmt::format("{}: expected {}, found {}", path, expected, found));
}

/// The fields of a message of Protocol Buffers
/// (https://protobuf.dev/programming-guides/encoding).
class MessageFields {
 public:
  MessageFields(const std::string& path, std::string_view message) : path_(path), rest_(message) {}

  uint64_t number = 0;     ///< of the field
  uint64_t value = 0;      ///< of a varint
  std::string_view bytes;  ///< of any other

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    number = tag >> 3U;
    value = 0;
    bytes = {};
    switch (tag & 7U) {
      case 0:
        value = varint();
        break;
      case 1:
        bytes = take(8);
        break;
      case 2:
        bytes = take(varint());
        break;
      case 5:
        bytes = take(4);
        break;
      default:
        fail_in_model(path_, "a SentencePiece model", fmt::format("a field of type {}", tag & 7U));
    }
    return true;
  }

 private:
  std::string_view take(uint64_t count) {
    if (count > rest_.size())
      fail_in_model(path_, fmt::format("{} bytes of a field", count), "the end of the file");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  uint64_t varint() {
    uint64_t number_read = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number_read |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return number_read;
    }
    fail_in_model(path_, "a number of at most 64 bits", "a longer one");
  }

  const std::string& path_;
  std::string_view rest_;  ///< of the message
};

uint32_t unit_at(std::string_view bytes, size_t index) {
  uint32_t unit = 0;
  std::memcpy(&unit, bytes.data() + index * sizeof(unit), sizeof(unit));
  return unit;
}

constexpr uint32_t kIsValue = 1U << 31U, kHasLeaf = 1U << 8U;  // of a unit

/// Whether the library stays within the trie when it goes on from a unit: to `at ^ offset ^ a byte`, and to
/// the value at `at ^ offset` where the unit has a leaf. It goes on from unit 0 even if that is a value.
bool is_closed(std::string_view trie, size_t units, size_t at) {
  const uint32_t unit = unit_at(trie, at);
  if ((unit & kIsValue) != 0 && at != 0) return true;
  const uint32_t offset = (unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
  const size_t next = at ^ offset;
  if ((next | 0xFFU) >= units) return false;
  return (unit & kHasLeaf) == 0 || (unit_at(trie, next) & kIsValue) != 0;
}

/// A table of normalizations: the bytes of a trie, the trie (a double array of darts-clone, whose units hold
/// offsets to other units or a value), and the texts that its values are offsets into, each ended by a zero.
void check_normalizations(const std::string& path, std::string_view table) {
  if (table.empty()) return;
  const auto fail = [&] {
    fail_in_model(path, "a table of normalizations that refers to itself alone", "another");
  };
  if (table.size() < sizeof(uint32_t)) fail();
  const size_t trie_bytes = unit_at(table, 0);
  table.remove_prefix(sizeof(uint32_t));
  if (trie_bytes >= table.size() || trie_bytes % sizeof(uint32_t) != 0 || table.back() != '\0') fail();
  const size_t units = trie_bytes / sizeof(uint32_t), texts = table.size() - trie_bytes;
  if (units == 0) fail();
  for (size_t i = 0; i < units; ++i) {
    const uint32_t unit = unit_at(table, i);
    if ((unit & kIsValue) != 0 && (unit & ~kIsValue) >= texts) fail();
    if (!is_closed(table, units, i)) fail();
  }
}

/// A name of the library's own normalizations; those that a model brings along may join any characters.
bool is_known_rule(std::string_view name) {
  return name == "identity" || name == "nfkc" || name == "nmt_nfkc" || name == "nfkc_cf" ||
         name == "nmt_nfkc_cf";
}

void check_piece(const std::string& path, std::string_view piece) {
  for (MessageFields field(path, piece); field.next();) {
    if (field.number != 2 || field.bytes.size() != sizeof(float)) continue;
    float score = 0;
    std::memcpy(&score, field.bytes.data(), sizeof(score));
    if (!std::isfinite(score)) fail_in_model(path, "finite scores of pieces", fmt::format("{}", score));
  }
}

}  // namespace

SentencePieceModel check_sentence_piece_model(const std::string& path, std::string_view model) {
  constexpr uint64_t kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
  constexpr uint64_t kModelType = 3, kWordModel = 3, kBlanksEndWords = 24, kName = 1;
  SentencePieceModel found;
  for (MessageFields field(path, model); field.next();) {
    if (field.number == kPieces) check_piece(path, field.bytes);
    if (field.number == kTrainer) {
      for (MessageFields part(path, field.bytes); part.next();) {
        if (part.number == kModelType && part.value == kWordModel) found.can_be_cut = false;
        if (part.number == kBlanksEndWords && part.value != 0) found.can_be_cut = false;
      }
    }
    if (field.number != kNormalizer && field.number != kDenormalizer) continue;
    for (MessageFields part(path, field.bytes); part.next();) {
      if (part.number == kName && field.number == kNormalizer) found.can_be_cut &= is_known_rule(part.bytes);
      if (part.number == 2) check_normalizations(path, part.bytes);
      if (part.number == 4 && field.number == kNormalizer) found.removes_blanks = part.value != 0;
    }
  }
  return found;
}

}  // namespace trainer
