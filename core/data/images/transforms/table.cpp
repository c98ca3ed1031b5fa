// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/table.h"

namespace trainer {

const Registry<Transform>& transforms() {
  static const Registry<Transform> table = {
      {"center_crop", "cuts out the middle", make_center_crop},
      {"color_jitter", "brightness, contrast, saturation and hue by random amounts, in random order",
       make_color_jitter},
      {"cutout", "blackens a square at a random place", make_cutout},
      {"gaussian", "blurs: a Gaussian filter against noise", make_gaussian},
      {"horizontal_flip", "mirrors left and right, with probability p", make_horizontal_flip},
      {"median", "the median of a window: a filter against single wrong pixels", make_median},
      {"normalize", "(x / 255 - mean) / std for each channel; the last of its list", make_normalize},
      {"random_augment", "RandAugment: random operations out of 14, of one strength", make_random_augment},
      {"random_crop", "pads with zeros, then cuts out a random window", make_random_crop},
      {"random_resized_crop", "cuts out a random window and scales it", make_random_resized_crop},
      {"resize", "scales, keeping the sides' ratio", make_resize},
      {"rotation", "turns by a random angle; what comes from outside is black", make_rotation},
  };
  return table;
}

}  // namespace trainer
