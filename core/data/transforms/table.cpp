// SPDX-License-Identifier: Apache-2.0
#include "core/data/transforms/table.h"

namespace trainer {

const Registry<Transform>& transforms() {
  static const Registry<Transform> table = {
      {"center_crop", "cuts out the middle", make_center_crop},
      {"horizontal_flip", "mirrors left and right, with probability p", make_horizontal_flip},
      {"normalize", "(x / 255 - mean) / std for each channel; the last of its list", make_normalize},
      {"random_crop", "pads with zeros, then cuts out a random window", make_random_crop},
      {"random_resized_crop", "cuts out a random window and scales it", make_random_resized_crop},
      {"resize", "scales, keeping the sides' ratio", make_resize},
  };
  return table;
}

}  // namespace trainer
