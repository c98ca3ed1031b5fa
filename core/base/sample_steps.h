// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/rng.h"

namespace trainer {

/// A random step between a stored sample and a row of a batch that devices support too: mirroring with
/// probability p, or a window of height x width of an image padded with `padding` zeros.
struct SampleStep {
  bool mirrors = false;
  double p = 0;
  int64_t padding = 0, height = 0, width = 0;
};

/// Such steps in order, with the key of their draws.
struct SampleSteps {
  static constexpr int kMost = 4;
  SampleStep steps[kMost] = {};
  int count = 0;
  uint64_t key = 0;
};

/// The result of a sample's draws: for each step the window's position in the image before the padding, and
/// whether it mirrors.
struct DrawnSteps {
  bool mirrored[SampleSteps::kMost];
  int64_t top[SampleSteps::kMost], left[SampleSteps::kMost];
};

/// The draws of a sample of `height` x `width`: the words that the host's transforms draw, in their order.
TRAINER_HD DrawnSteps draw_steps(const SampleSteps& all, int32_t epoch, int32_t sample, int64_t height,
                                 int64_t width) {
  DrawnSteps drawn{};
  RandomStream random(all.key, static_cast<uint32_t>(epoch), static_cast<uint32_t>(sample));
  for (int i = 0; i < all.count; ++i) {
    const SampleStep& step = all.steps[i];
    if (step.mirrors) {
      drawn.mirrored[i] = static_cast<double>(random.next_uniform()) < step.p;
    } else {
      drawn.top[i] = random.next_below(height + 2 * step.padding - step.height + 1) - step.padding;
      drawn.left[i] = random.next_below(width + 2 * step.padding - step.width + 1) - step.padding;
      height = step.height, width = step.width;
    }
  }
  return drawn;
}

/// Where a pixel of the last step's image comes from: (y, x) becomes its place in the stored one. False
/// for padding. `height` and `width` are the stored image's.
TRAINER_HD bool source_place(const SampleSteps& all, const DrawnSteps& drawn, int64_t height, int64_t width,
                             int64_t& y, int64_t& x) {
  for (int i = all.count; i-- > 0;) {
    int64_t rows = height, columns = width;  // of the image before this step
    for (int before = 0; before < i; ++before) {
      if (!all.steps[before].mirrors) rows = all.steps[before].height, columns = all.steps[before].width;
    }
    if (all.steps[i].mirrors) {
      if (drawn.mirrored[i]) x = columns - 1 - x;
    } else {
      y += drawn.top[i], x += drawn.left[i];
      if (y < 0 || y >= rows || x < 0 || x >= columns) return false;
    }
  }
  return true;
}

}  // namespace trainer
