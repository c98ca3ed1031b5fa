// SPDX-License-Identifier: Apache-2.0
#include "core/data/transforms/table.h"

namespace trainer {

const Registry<Transform>& transforms() {
  static const Registry<Transform> table = {
      {"horizontal_flip", "mirrors left and right, with probability p", make_horizontal_flip},
      {"normalize", "(x / 255 - mean) / std for each channel; the last of its list", make_normalize},
      {"random_crop", "pads with zeros, then cuts out a random window", make_random_crop},
  };
  return table;
}

}  // namespace trainer
