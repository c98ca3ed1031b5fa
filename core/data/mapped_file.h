// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trainer {

struct MappedRange;

/// Tells a file from a later one of the same name.
struct FileStamp {
  int64_t bytes = 0;
  int64_t modified = 0;  ///< nanoseconds
  bool operator==(const FileStamp&) const = default;
};

/// A file's bytes as memory that the system reads on first access, and may reclaim. Throws Error: exit 78 if
/// the file is missing, 65 if it is not a regular one, 74 if the system fails.
///
/// Pages that are lost while it is mapped, because the file has become shorter or its disk fails, read as
/// zeros. Call require_intact after reading the bytes, and before using them.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Lets the system read a part ahead of time.
  void expect(int64_t offset, int64_t bytes) const;
  /// Throws Error (exit 74) with the file's name if bytes that were touched are lost, or the file is
  /// shorter now.
  void require_intact() const;

  FileStamp stamp() const { return stamp_; }
  /// Throws Error (exit 65) if its path names a file with another stamp now. One that was removed stays
  /// mapped.
  void require_unchanged() const;

 private:
  std::string path_;
  FileStamp stamp_;
  std::span<const std::byte> bytes_;
  dev_t device_ = 0;
  ino_t number_ = 0;
  MappedRange* range_ = nullptr;  ///< never freed: a signal may come at any moment
};

}  // namespace trainer
