// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace trainer {

/// The command of the package dcmtk that makes an image of a DICOM file.
inline constexpr const char* kConvertDicom =
    "convert DICOM files: dcmj2pnm --write-png FILE.dcm FILE.png (package dcmtk)";
/// That of libheif for the photographs of telephones.
inline constexpr const char* kConvertHeic =
    "convert HEIC files: heif-convert FILE.heic FILE.png (package libheif-examples)";

/// The files of a folder that are no samples, counted by type.
class SkippedFiles {
 public:
  /// Counts a file by its ending in lower case. Hidden files, tables of labels (.csv, .tsv) and files that
  /// systems leave in folders of images (Thumbs.db) are not counted.
  void add_file(const std::filesystem::path& path);
  void add(const std::string& type, int64_t count = 1);

  int64_t total() const;
  const std::map<std::string, int64_t>& by_type() const { return count_; }
  /// "30 skipped: 20 .tif, 10 .gif", the most frequent first; empty if there are none.
  /// With the commands that convert DICOM and HEIC files, if it has some.
  std::string text() const;

 private:
  std::map<std::string, int64_t> count_;
};

}  // namespace trainer
