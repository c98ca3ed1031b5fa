// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/table.h"

namespace trainer {

const Registry<Transform>& transforms() {
  static const Registry<Transform> table = {
      {"auto_augment", "AutoAugment: one of 25 pairs of operations, learned for a data set",
       make_auto_augment},
      {"autocontrast", "spreads each channel's values over 0 to 255", make_autocontrast},
      {"bilateral", "smooths within edges: a mean of neighbours of similar colour", make_bilateral},
      {"center_crop", "crops the centre", make_center_crop},
      {"color_jitter", "changes brightness, contrast, saturation and hue by random amounts, in random order",
       make_color_jitter},
      {"cutout", "blackens a square at a random position", make_cutout},
      {"equalize", "spreads each channel's values so that all are about equally frequent", make_equalize},
      {"gaussian", "blurs with a Gaussian filter", make_gaussian},
      {"gaussian_noise", "adds noise of a normal distribution", make_gaussian_noise},
      {"horizontal_flip", "flips left and right, with probability p", make_horizontal_flip},
      {"median", "median filter, which removes single wrong pixels", make_median},
      {"normalize", "(x / 255 - mean) / std for each channel; must come last", make_normalize},
      {"random_augment", "RandAugment: random operations out of 14, all with the same magnitude",
       make_random_augment},
      {"random_crop", "pads with zeros, then crops a random window", make_random_crop},
      {"random_erasing", "replaces a random rectangle with a colour or noise, with probability p",
       make_random_erasing},
      {"random_resized_crop", "crops a random window and resizes it", make_random_resized_crop},
      {"resize", "resizes, keeping the aspect ratio unless height and width are given", make_resize},
      {"rotate90",
       "rotates by a random multiple of 90 degrees; images that are not square by 0 or 180, as their size "
       "stays",
       make_rotate90},
      {"rotation", "rotates by a random angle; uncovered pixels become black", make_rotation},
      {"trivial_augment", "TrivialAugmentWide: one random operation out of 14, with a random magnitude",
       make_trivial_augment},
      {"vertical_flip", "flips top and bottom, with probability p", make_vertical_flip},
      {"window",
       "spreads the stored values from `from` to `to`, of 8 or 16 bits, over black to white; must come first",
       make_window},
  };
  return table;
}

}  // namespace trainer
