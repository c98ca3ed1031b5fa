// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

struct Sizes {
  int64_t least = 0, median = 0, most = 0;
};

/// Properties of a split's samples. All but `samples` and `unreadable` are about those that can be read.
struct SplitStatistics {
  int64_t samples = 0;
  std::vector<int64_t> per_class;         ///< samples or, with masks, pixels
  std::optional<int64_t> ignored_pixels;  ///< of masks
  std::vector<std::string> class_names;   ///< empty if the format has none
  Sizes height, width;
  std::vector<double> mean, deviation;  ///< of each channel's bytes / 255, over all pixels
  std::vector<UnreadableSample> unreadable;
};

/// Reads every sample once, after the window if one is given, on this number of threads; the result does not
/// depend on it.
SplitStatistics measure(const ImageSource& source, int64_t threads, const PixelWindow* window = nullptr);

}  // namespace trainer
