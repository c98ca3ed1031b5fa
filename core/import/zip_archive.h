// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainer {

/// A zip archive, read through libzip. Entries must be stored without compression, as torch.save writes them.
/// All functions throw Error: exit 65 with the finding if the archive is damaged, 74 if it cannot be read.
class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  /// In the order of the archive's directory.
  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const;
  /// The size of an entry in bytes. Throws Error (exit 65) if it is missing, compressed, encrypted, or larger
  /// than the archive.
  int64_t bytes(const std::string& name) const;
  /// Reads a part of an entry. Parts that follow each other from the first byte to the last are compared with
  /// the entry's checksum.
  void read(const std::string& name, int64_t begin, std::span<std::byte> into);

 private:
  struct Library;
  [[noreturn]] void fail(const std::string& text) const;
  [[noreturn]] void fail_in_library(const std::string& what, int code, int number) const;
  void open_entry(const std::string& name);
  void read_next(std::span<std::byte> into);

  std::filesystem::path path_;
  int64_t archive_bytes_ = 0;
  std::unique_ptr<Library> library_;
  std::vector<std::string> names_;
  std::string open_;      ///< the entry that is being read
  int64_t position_ = 0;  ///< in it
};

}  // namespace trainer
