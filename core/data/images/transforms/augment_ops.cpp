// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/augment_ops.h"

#include <cmath>

#include "core/data/images/transforms/colour.h"
#include "core/data/images/transforms/tones.h"
#include "core/data/images/transforms/warp.h"

namespace trainer {
namespace {

double share(int64_t level) {
  return static_cast<double>(level) / static_cast<double>(kMostAugmentLevel);
}

double none(int64_t, int64_t, int64_t) {
  return 0;
}
double shear(int64_t level, int64_t, int64_t) {
  return 0.3 * share(level);
}
double translation(int64_t level, int64_t extent) {
  return 150.0 / 331.0 * static_cast<double>(extent) * share(level);
}
double translation_x(int64_t level, int64_t, int64_t width) {
  return translation(level, width);
}
double translation_y(int64_t level, int64_t height, int64_t) {
  return translation(level, height);
}
double degrees(int64_t level, int64_t, int64_t) {
  return 30 * share(level);
}
double enhancement(int64_t level, int64_t, int64_t) {
  return 0.9 * share(level);
}
double bits(int64_t level, int64_t, int64_t) {
  return 8 - std::round(4 * share(level));
}
double threshold(int64_t level, int64_t, int64_t) {
  return 255 * (1 - share(level));
}

void keep(Image&, double) {}
// Shears leave the first row, or the first column, where it is.
void shear_x(Image& image, double m) {
  warp(image, {.xy = m, .x0 = m * static_cast<double>(image.height) / 2}, Sampling::nearest);
}
void shear_y(Image& image, double m) {
  warp(image, {.yx = m, .y0 = m * static_cast<double>(image.width) / 2}, Sampling::nearest);
}
void translate_x(Image& image, double m) {
  warp(image, {.x0 = -std::trunc(m)}, Sampling::nearest);
}
void translate_y(Image& image, double m) {
  warp(image, {.y0 = -std::trunc(m)}, Sampling::nearest);
}
void rotate(Image& image, double m) {
  warp(image, rotation_by(m), Sampling::nearest);
}
void brightness(Image& image, double m) {
  adjust_brightness(image, 1 + m);
}
void color(Image& image, double m) {
  adjust_saturation(image, 1 + m);
}
void contrast(Image& image, double m) {
  adjust_contrast(image, 1 + m);
}
void sharpness(Image& image, double m) {
  adjust_sharpness(image, 1 + m);
}
void keep_bits(Image& image, double m) {
  posterize(image, static_cast<int>(m));
}
void spread(Image& image, double) {
  autocontrast(image);
}
void level_out(Image& image, double) {
  equalize(image);
}

}  // namespace

const std::array<AugmentOp, 14>& augment_ops() {
  static constexpr std::array<AugmentOp, 14> kTable = {{
      {"Identity", false, none, keep},
      {"ShearX", true, shear, shear_x},
      {"ShearY", true, shear, shear_y},
      {"TranslateX", true, translation_x, translate_x},
      {"TranslateY", true, translation_y, translate_y},
      {"Rotate", true, degrees, rotate},
      {"Brightness", true, enhancement, brightness},
      {"Color", true, enhancement, color},
      {"Contrast", true, enhancement, contrast},
      {"Sharpness", true, enhancement, sharpness},
      {"Posterize", false, bits, keep_bits},
      {"Solarize", false, threshold, solarize},
      {"AutoContrast", false, none, spread},
      {"Equalize", false, none, level_out},
  }};
  return kTable;
}

}  // namespace trainer
