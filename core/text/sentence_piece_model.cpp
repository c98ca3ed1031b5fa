// SPDX-License-Identifier: Apache-2.0
#include "core/text/sentence_piece_model.h"

#include <fmt/core.h>
#include <protozero/data_view.hpp>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace trainer {
namespace {

using protozero::pbf_reader;
using protozero::tag_and_type;

[[noreturn]] void fail_in_model(const std::string& path, const std::string& expected,
                                const std::string& found) {
  throw Error(ExitCode::data, fmt::format("{}: expected {}, found {}", path, expected, found));
}

constexpr auto kVarint = protozero::pbf_wire_type::varint, kFloat = protozero::pbf_wire_type::fixed32,
               kDelimited = protozero::pbf_wire_type::length_delimited;

/// Moves to the next field of a message, if there is one. protozero drops the upper half of a length, so
/// lengths are compared with the remaining bytes before it reads them.
bool advance(const std::string& path, pbf_reader& message) {
  if (!message.next()) return false;
  if (!message.has_wire_type(kDelimited)) return true;
  const char* at = message.data().data();
  const char* const end = at + message.length();
  const uint64_t length = protozero::decode_varint(&at, end);
  if (length > static_cast<uint64_t>(end - at))
    fail_in_model(path, fmt::format("{} bytes of a field", length), "the end of the file");
  return true;
}

std::string_view bytes_of(pbf_reader& field) {
  const protozero::data_view view = field.get_view();
  return {view.data(), view.size()};
}

uint32_t unit_at(std::string_view bytes, size_t index) {
  uint32_t unit = 0;
  std::memcpy(&unit, bytes.data() + index * sizeof(unit), sizeof(unit));
  return unit;
}

constexpr uint32_t kIsValue = 1U << 31U, kHasLeaf = 1U << 8U;  // of a unit

/// Whether the library stays within the trie when it continues from a unit: to `at ^ offset ^ a byte`, and to
/// the value at `at ^ offset` if the unit has a leaf. It continues from unit 0 even if that is a value.
bool is_closed(std::string_view trie, size_t units, size_t at) {
  const uint32_t unit = unit_at(trie, at);
  if ((unit & kIsValue) != 0 && at != 0) return true;
  const uint32_t offset = (unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
  const size_t next = at ^ offset;
  if ((next | 0xFFU) >= units) return false;
  return (unit & kHasLeaf) == 0 || (unit_at(trie, next) & kIsValue) != 0;
}

/// A table of normalizations: the bytes of a trie, the trie, and the texts that its values are offsets into,
/// each ended by a zero. The trie is a double array of darts-clone, with units that hold offsets to other
/// units or a value.
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

/// A name of the library's own normalizations; those of a model may join any characters.
bool is_known_rule(std::string_view name) {
  return name == "identity" || name == "nfkc" || name == "nmt_nfkc" || name == "nfkc_cf" ||
         name == "nmt_nfkc_cf";
}

void check_piece(const std::string& path, pbf_reader piece) {
  constexpr int kScore = 2;
  while (advance(path, piece)) {
    if (piece.tag_and_type() != tag_and_type(kScore, kFloat)) {
      piece.skip();
    } else if (const float score = piece.get_float(); !std::isfinite(score)) {
      fail_in_model(path, "finite scores of pieces", fmt::format("{}", score));
    }
  }
}

void read_trainer(const std::string& path, pbf_reader trainer, SentencePieceModel& found) {
  constexpr int kModelType = 3, kWordModel = 3, kBlanksEndWords = 24;
  while (advance(path, trainer)) {
    switch (trainer.tag_and_type()) {
      case tag_and_type(kModelType, kVarint):
        found.can_be_cut &= trainer.get_enum() != kWordModel;
        break;
      case tag_and_type(kBlanksEndWords, kVarint):
        found.can_be_cut &= trainer.get_uint64() == 0;
        break;
      default:
        trainer.skip();
    }
  }
}

void read_normalizer(const std::string& path, pbf_reader normalizer, SentencePieceModel& found) {
  constexpr int kName = 1, kTable = 2, kRemovesBlanks = 4;
  while (advance(path, normalizer)) {
    switch (normalizer.tag_and_type()) {
      case tag_and_type(kName, kDelimited):
        found.can_be_cut &= is_known_rule(bytes_of(normalizer));
        break;
      case tag_and_type(kTable, kDelimited):
        check_normalizations(path, bytes_of(normalizer));
        break;
      case tag_and_type(kRemovesBlanks, kVarint):
        found.removes_blanks = normalizer.get_uint64() != 0;
        break;
      default:
        normalizer.skip();
    }
  }
}

SentencePieceModel read_model(const std::string& path, std::string_view model) {
  constexpr int kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
  SentencePieceModel found, ignored;
  for (pbf_reader field(model.data(), model.size()); advance(path, field);) {
    switch (field.tag_and_type()) {
      case tag_and_type(kPieces, kDelimited):
        check_piece(path, field.get_message());
        break;
      case tag_and_type(kTrainer, kDelimited):
        read_trainer(path, field.get_message(), found);
        break;
      case tag_and_type(kNormalizer, kDelimited):
        read_normalizer(path, field.get_message(), found);
        break;
      case tag_and_type(kDenormalizer, kDelimited):
        read_normalizer(path, field.get_message(), ignored);
        break;
      default:
        field.skip();
    }
  }
  return found;
}

}  // namespace

SentencePieceModel check_sentence_piece_model(const std::string& path, std::string_view model) try {
  return read_model(path, model);
} catch (const protozero::end_of_buffer_exception&) {
  fail_in_model(path, "a whole field", "the end of the file");
} catch (const protozero::varint_too_long_exception&) {
  fail_in_model(path, "a number of at most 64 bits", "a longer one");
} catch (const protozero::exception&) {  // of a field's type or number
  fail_in_model(path, "a SentencePiece model", "a field of an unknown type");
}

}  // namespace trainer
