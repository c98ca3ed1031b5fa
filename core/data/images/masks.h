// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/fields.h"
#include "core/data/format.h"
#include "core/data/images/source.h"

namespace trainer {

/// The value in masks of pixels that have no class, unless loss.ignore_index gives another.
constexpr int32_t kIgnoredPixel = 255;
/// Values that a byte has.
constexpr int64_t kMostMaskClasses = 256;

/// The keys of masks: where they are, and what their values mean.
struct MaskKeys {
  std::optional<FilePath> dir, val_dir;  ///< null: beside the images; of `val`: as `dir`
  std::optional<std::string> suffix;     ///< null: ".png"
  std::vector<int64_t> values;           ///< of class 0, 1, …; none: a value is its class
  std::optional<FilePath> class_names;   ///< a text file with a line for each class

  void declare(Fields& fields);
  void check(const OriginOf& origin_of, Diagnostics& diagnostics) const;
  bool any() const { return dir || suffix; }
  std::string ending() const { return suffix.value_or(".png"); }
  /// None without a file. Throws Error (exit 65) with file and line.
  std::vector<std::string> names() const;
};

/// The class of each value of a mask.
class MaskValues {
 public:
  /// `classes` is the network's number; 0: any value is a class.
  MaskValues(const std::vector<int64_t>& values, int64_t classes, std::optional<int64_t> ignored);

  uint8_t ignored() const { return ignored_; }
  /// Replaces values (H, W) by their classes. Throws DecodeError with the first pixel that has none.
  void to_classes(std::vector<uint8_t>& mask, int64_t width) const;

 private:
  std::array<int16_t, kMostMaskClasses> class_of_{};  // negative: none
  uint8_t ignored_;
  std::string expected_;
};

/// The images below `folder` at any depth, sorted by path, each with its mask. A mask that is missing, has
/// another size, or a value without a class makes its sample unreadable (see UnreadableSampleError).
std::unique_ptr<ImageSource> open_masked_images(const MaskKeys& keys, const std::string& folder,
                                                int64_t max_pixels, const SourceRequest& request);
/// Lists the images without opening them.
SourceInfo peek_masked_images(const MaskKeys& keys, const std::string& folder, Split split);

}  // namespace trainer
