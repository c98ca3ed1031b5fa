// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/augment_ops.h"

#include <cmath>

#include "core/data/images/transforms/colour.h"
#include "core/data/images/transforms/tones.h"
#include "core/data/images/transforms/warp.h"

namespace trainer {
namespace {

/// In equal steps from the nearer end, with the exact rounding of torch.linspace on processors with AVX2: the
/// middle one of 31 translations up to 32 is just below 16, and moves by 15 pixels.
double between(double first, double last, AugmentLevel at) {
  const auto low = static_cast<float>(first), high = static_cast<float>(last);
  const float step = (high - low) / static_cast<float>(at.count - 1);
  if (at.level < at.count / 2) return std::fma(step, static_cast<float>(at.level), low);
  return std::fma(-step, static_cast<float>(at.count - 1 - at.level), high);
}

double none(AugmentLevel, int64_t, int64_t) {
  return 0;
}
double shear(AugmentLevel at, int64_t, int64_t) {
  return between(0, 0.3, at);
}
double translation_x(AugmentLevel at, int64_t, int64_t width) {
  return between(0, 150.0 / 331.0 * static_cast<double>(width), at);
}
double translation_y(AugmentLevel at, int64_t height, int64_t) {
  return between(0, 150.0 / 331.0 * static_cast<double>(height), at);
}
double degrees(AugmentLevel at, int64_t, int64_t) {
  return between(0, 30, at);
}
double enhancement(AugmentLevel at, int64_t, int64_t) {
  return between(0, 0.9, at);
}
double bits(AugmentLevel at, int64_t, int64_t) {
  return 8 - std::round(between(0, 4, at));
}
double threshold(AugmentLevel at, int64_t, int64_t) {
  return between(255, 0, at);
}
double wide_share(AugmentLevel at, int64_t, int64_t) {
  return between(0, 0.99, at);
}
double wide_translation(AugmentLevel at, int64_t, int64_t) {
  return between(0, 32, at);
}
double wide_degrees(AugmentLevel at, int64_t, int64_t) {
  return between(0, 135, at);
}
double wide_bits(AugmentLevel at, int64_t, int64_t) {
  return 8 - std::round(between(0, 6, at));
}

void keep(Image&, double) {}
// Shears leave the first row, or the first column, in place.
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

void negate(Image& image, double) {
  solarize(image, 0);
}

}  // namespace

const std::array<AugmentOp, 15>& augment_ops() {
  static constexpr std::array<AugmentOp, 15> kTable = {{
      {"Identity", false, none, none, keep},
      {"ShearX", true, shear, wide_share, shear_x},
      {"ShearY", true, shear, wide_share, shear_y},
      {"TranslateX", true, translation_x, wide_translation, translate_x},
      {"TranslateY", true, translation_y, wide_translation, translate_y},
      {"Rotate", true, degrees, wide_degrees, rotate},
      {"Brightness", true, enhancement, wide_share, brightness},
      {"Color", true, enhancement, wide_share, color},
      {"Contrast", true, enhancement, wide_share, contrast},
      {"Sharpness", true, enhancement, wide_share, sharpness},
      {"Posterize", false, bits, wide_bits, keep_bits},
      {"Solarize", false, threshold, threshold, solarize},
      {"AutoContrast", false, none, none, spread},
      {"Equalize", false, none, none, level_out},
      {"Invert", false, none, none, negate},
  }};
  return kTable;
}

}  // namespace trainer
