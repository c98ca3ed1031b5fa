// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace trainer {

constexpr int64_t kTarBlock = 512;

/// A regular file in a tar archive.
struct TarMember {
  int64_t start = 0;  ///< offset of its first header
  std::string name;
  int64_t offset = 0, bytes = 0;  ///< of its contents, within the archive
};

/// The regular files of a tar archive in their order: ustar, pax, and the long names of GNU. Folders are
/// passed over. Anything else that a sample cannot be read from is refused: a link, a device, a sparse file,
/// a size beyond the archive, an archive without an end, or with more after it.
class TarReader {
 public:
  /// Begins at the header at offset `start`. `archive` has all bytes and must outlive this; `path` is for
  /// messages. Throws Error (exit 65) if the archive is compressed or empty.
  TarReader(std::string path, std::span<const std::byte> archive, int64_t start = 0);

  /// Nothing at the end. Throws Error (exit 65) with file and offset.
  std::optional<TarMember> next();

 private:
  /// Properties that a member's extended headers give.
  struct Extended {
    std::string name;
    std::optional<int64_t> bytes;
  };

  [[noreturn]] void fail(int64_t offset, const std::string& expected, const std::string& found) const;
  void check_header(int64_t at) const;
  void check_end(int64_t at) const;
  int64_t size_of(int64_t at, const Extended& extended) const;
  std::string name_of(int64_t at, const Extended& extended) const;
  std::string extension_of(int64_t at, int64_t bytes) const;
  void read_pax(int64_t at, const std::string& records, Extended& into) const;

  std::string path_;
  std::span<const std::byte> archive_;
  int64_t at_;  // of the next header
};

}  // namespace trainer
