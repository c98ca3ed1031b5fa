// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/tar.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/base/printable.h"
#include "core/data/data_error.h"
#include "core/data/foreign_content.h"

// The layout is that of POSIX.1-2017 (pax: "pax Interchange Format", "ustar Interchange Format") and of GNU
// tar's manual ("Basic Tar Format").
namespace trainer {
namespace {

struct TarField {
  int64_t offset, width;
};
constexpr TarField kTarName{0, 100}, kTarSize{124, 12}, kTarSum{148, 8}, kTarMagic{257, 6},
    kTarPrefix{345, 155};
constexpr int64_t kTarType = 156;
/// The most bytes of a pax header or a long name: no sample needs more.
constexpr int64_t kMostExtension = int64_t{1} << 20;

std::string_view field_of(std::span<const std::byte> archive, int64_t header, const TarField& field) {
  return {reinterpret_cast<const char*>(archive.data()) + header + field.offset,
          static_cast<size_t>(field.width)};
}

std::string_view up_to_zero(std::string_view text) {
  return text.substr(0, text.find('\0'));
}

/// Octal digits between blanks or, with the highest bit set, a number of that many bytes. Nothing for others.
std::optional<int64_t> tar_number(std::string_view field) {
  int64_t value = 0;
  if ((static_cast<uint8_t>(field[0]) & 0x80U) != 0) {
    if (static_cast<uint8_t>(field[0]) != 0x80) return std::nullopt;  // below zero, or beyond any file
    for (const char byte : field.substr(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(byte);
    }
    return value;
  }
  std::string_view digits = up_to_zero(field);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (problem != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

/// What a member is by its type, if it is neither a file nor a folder.
std::string other_member(char type) {
  switch (type) {
    case '1':
      return "a hard link";
    case '2':
      return "a symbolic link";
    case '3':
    case '4':
      return "a device";
    case '6':
      return "a pipe";
    case 'S':
      return "a sparse file";
    case 'M':
      return "the rest of a file in another archive";
    default:
      return fmt::format("a member of type '{}'", one_line(std::string(1, type)));
  }
}

int64_t rounded_up(int64_t bytes) {
  return (bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
}

}  // namespace

TarReader::TarReader(std::string path, std::span<const std::byte> archive, int64_t start)
    : path_(std::move(path)), archive_(archive), at_(start) {
  if (archive.empty()) fail(0, "a tar archive", "an empty file");
  const std::string other = foreign_content(archive);
  if (!other.empty()) fail(0, "a plain tar archive, as samples are read in any order", other);
}

void TarReader::fail(int64_t offset, const std::string& expected, const std::string& found) const {
  fail_in_file(path_, offset, expected, found);
}

/// By its sum. Old programs added bytes with a sign.
void TarReader::check_header(int64_t at) const {
  int64_t sum = 0, signed_sum = 0;
  for (int64_t i = 0; i < kTarBlock; ++i) {
    const bool is_sum = i >= kTarSum.offset && i < kTarSum.offset + kTarSum.width;
    const auto byte = is_sum ? uint8_t{' '} : std::to_integer<uint8_t>(archive_[static_cast<size_t>(at + i)]);
    sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  const std::optional<int64_t> stated = tar_number(field_of(archive_, at, kTarSum));
  if (stated == sum || stated == signed_sum) return;
  if (at == 0) fail(at, "a tar archive", "another file");
  fail(at, fmt::format("a member's header with checksum {:o}", sum),
       stated ? fmt::format("{:o}; the archive is damaged", *stated) : "no header; the archive is damaged");
}

/// Two blocks of zeros end an archive, and more of them may fill it up.
void TarReader::check_end(int64_t at) const {
  const auto rest = archive_.subspan(static_cast<size_t>(at));
  const auto other = std::ranges::find_if(rest, [](std::byte byte) { return byte != std::byte{0}; });
  if (other != rest.end())
    fail(at + (other - rest.begin()), "zeros after the end of the archive",
         "more; of archives that were joined, name each as a file of its own");
}

int64_t TarReader::size_of(int64_t at, const Extended& extended) const {
  const std::optional<int64_t> size =
      extended.bytes ? extended.bytes : tar_number(field_of(archive_, at, kTarSize));
  if (!size) fail(at + kTarSize.offset, "the size of a member", "something else");
  const int64_t room = static_cast<int64_t>(archive_.size()) - at - kTarBlock;
  if (*size > room)
    fail(at + kTarSize.offset, fmt::format("a member of at most {} bytes", room),
         fmt::format("{}; the archive is truncated", *size));
  return *size;
}

std::string TarReader::name_of(int64_t at, const Extended& extended) const {
  if (!extended.name.empty()) return extended.name;
  const std::string name(up_to_zero(field_of(archive_, at, kTarName)));
  // GNU's own headers end their mark with blanks, and have other fields here.
  const std::string_view magic = field_of(archive_, at, kTarMagic);
  const std::string_view prefix = up_to_zero(field_of(archive_, at, kTarPrefix));
  const bool has_prefix = magic == std::string_view("ustar\0", 6) && !prefix.empty();
  return has_prefix ? fmt::format("{}/{}", prefix, name) : name;
}

/// The contents of a pax header or a long name.
std::string TarReader::extension_of(int64_t at, int64_t bytes) const {
  if (bytes > kMostExtension)
    fail(at + kTarSize.offset, fmt::format("an extended header of at most {} bytes", kMostExtension),
         std::to_string(bytes));
  return {reinterpret_cast<const char*>(archive_.data()) + at + kTarBlock, static_cast<size_t>(bytes)};
}

/// Records are "length key=value\n", with the length of all of that in decimal digits.
void TarReader::read_pax(int64_t at, const std::string& records, Extended& into) const {
  std::string_view rest = records;
  while (!rest.empty()) {
    size_t length = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto begin = static_cast<size_t>(end - rest.data()) + 1;
    const bool is_record = problem == std::errc() && length <= rest.size() && begin < length &&
                           rest[begin - 1] == ' ' && rest[length - 1] == '\n';
    const std::string_view record = is_record ? rest.substr(begin, length - 1 - begin) : "";
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) fail(at, "a pax header of records key=value", "something else");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse.")) fail(at, "files with samples", other_member('S'));
    if (key == "path") into.name = value;
    if (key == "size") {
      int64_t bytes = -1;
      const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (wrong != std::errc() || last != value.data() + value.size() || bytes < 0)
        fail(at, "the size of a member in its pax header", one_line(std::string(value)));
      into.bytes = bytes;
    }
    rest.remove_prefix(length);
  }
}

std::optional<TarMember> TarReader::next() {
  Extended extended;
  const auto end = static_cast<int64_t>(archive_.size());
  for (int64_t start = at_;;) {
    const int64_t at = at_;
    if (end - at < kTarBlock)
      fail(at, "a member's header, or the blocks of zeros that end an archive",
           "the end of the file; the archive is truncated");
    const auto header = archive_.subspan(static_cast<size_t>(at), kTarBlock);
    if (std::ranges::all_of(header, [](std::byte byte) { return byte == std::byte{0}; })) {
      if (at != start) fail(at, "the member that an extended header belongs to", "the end of the archive");
      check_end(at);
      return std::nullopt;
    }
    check_header(at);
    const char type = std::to_integer<char>(header[kTarType]);
    const bool is_extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const int64_t bytes = size_of(at, is_extension ? Extended{} : extended);
    at_ = std::min(end, at + kTarBlock + rounded_up(bytes));
    if (type == 'x') {
      read_pax(at, extension_of(at, bytes), extended);
    } else if (type == 'L') {
      extended.name = up_to_zero(extension_of(at, bytes));
    } else if (type == '\0' || type == '0' || type == '7') {
      return TarMember{start, name_of(at, extended), at + kTarBlock, bytes};
    } else if (type == 'g' && at == start) {
      start = at_;  // about all members; none of its properties is needed
    } else if (type == '5') {
      extended = {};
      start = at_;
    } else if (!is_extension) {
      fail(at, "files with samples",
           fmt::format("{}, '{}'", other_member(type), one_line(name_of(at, extended))));
    }
  }
}

}  // namespace trainer
