// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/recipe/decode_rate.h"

namespace trainer {

/// At most so much is read, and so many files are looked at.
struct ReadingBounds {
  double seconds = 3;  ///< for listing, and again for reading; decoding takes two thirds of a processor's
  int64_t bytes = int64_t{4} << 30;
  int64_t files = 10'000;
};

/// How fast files are read, and how many images of them one core reads and decodes in a second.
struct ReadingSpeed {
  int64_t files = 0, bytes = 0;  ///< that were read; a last one perhaps in part
  double seconds = 0;            ///< by the clock: opening and reading them, one after another
  int64_t image_files = 0;       ///< of those, by their names
  DecodeRate images;             ///< whole images, without augmentations; no samples: none could be decoded
  int64_t unreadable = 0;        ///< files, folders and images
  std::string first_unreadable;  ///< "PATH: reason"; empty: all were read

  double bytes_per_second() const { return static_cast<double>(bytes) / seconds; }
};

/// Reads a file, or the files below a folder without hidden ones, after the system was asked to drop its
/// cache of each: the speed is that of the disk unless the system keeps it. Throws Error (exit 74) if the
/// path does not exist or the folder cannot be listed.
ReadingSpeed measure_reading(const std::filesystem::path& path, const ReadingBounds& bounds = {});

}  // namespace trainer
