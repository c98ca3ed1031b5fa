// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/multiversion.h"

namespace trainer {
namespace {

/// For each pixel made: weights of the `count` pixels from `first` on, then zeros.
struct Taps {
  std::vector<int64_t> first, count;
  std::vector<float> weights;  // `most` for each pixel made
  int64_t most = 0;
  int64_t longest = 0;  // count
  PixelRange range;     // of all taps

  const float* of(int64_t i) const { return weights.data() + i * most; }
};

/// Half the width of the triangle, in source pixels.
double support(const AxisView& axis) {
  return std::max(1.0, axis.scale());
}

Taps make_taps(const AxisView& axis) {
  Taps taps;
  const double reach = support(axis), scale = axis.scale();
  taps.most = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  taps.weights.resize(static_cast<size_t>(taps.most * axis.out));
  taps.range = {axis.high, axis.low};
  for (int64_t i = 0; i < axis.out; ++i) {
    const double center = axis.begin + (static_cast<double>(i) + 0.5) * scale;
    // Pixels with centres, at j + 0.5, within the triangle: 0 at its ends.
    const auto begin = static_cast<int64_t>(std::floor(center - reach - 0.5)) + 1;
    const auto end = static_cast<int64_t>(std::ceil(center + reach - 0.5));
    const int64_t first = std::clamp(begin, axis.low, axis.high - 1);
    const int64_t last = std::clamp(end, first + 1, axis.high);
    float* weights = taps.weights.data() + i * taps.most;
    double sum = 0;
    for (int64_t j = first; j < last; ++j) {
      sum += std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - center) / reach);
    }
    for (int64_t j = first; j < last; ++j) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - center) / reach);
      weights[j - first] = static_cast<float>(weight / sum);
    }
    taps.first.push_back(first);
    taps.count.push_back(last - first);
    taps.longest = std::max(taps.longest, last - first);
    taps.range = {std::min(taps.range.first, first), std::max(taps.range.end, last)};
  }
  return taps;
}

/// line[i] = the weighted sum of `count` rows at i. In blocks, so that the sums stay in registers.
TRAINER_MULTIVERSION void blend_rows(const uint8_t* rows, int64_t stride, const float* weights, int64_t count,
                                     float* __restrict line, int64_t bytes) {
  constexpr int64_t kBlock = 64;
  int64_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock) {
    float sums[kBlock] = {};
    for (int64_t k = 0; k < count; ++k) {
      const uint8_t* __restrict row = rows + k * stride + at;
      const float weight = weights[k];
      for (int64_t i = 0; i < kBlock; ++i) sums[i] += weight * static_cast<float>(row[i]);
    }
    std::memcpy(line + at, sums, sizeof sums);
  }
  for (; at < bytes; ++at) {
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += weights[k] * static_cast<float>(rows[k * stride + at]);
    line[at] = sum;
  }
}

/// Four channels at once; unaligned, as the compiler may not assume more of the vectors' memory.
using Float4 [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = float;

/// Pixels of 4 floats: dst[i] = weighted sum of kTaps pixels of `line`; the first is number
/// `taps.range.first`.
template <int kTaps>
TRAINER_MULTIVERSION void blend_pixels(const float* __restrict line, const Taps& taps, int64_t out,
                                       float* __restrict dst) {
  const int64_t* first = taps.first.data();
  const float* weights = taps.weights.data();
  for (int64_t i = 0; i < out; ++i, weights += taps.most) {
    const float* src = line + 4 * (first[i] - taps.range.first);
    Float4 sum = weights[0] * *reinterpret_cast<const Float4*>(src);
    for (int k = 1; k < kTaps; ++k) sum += weights[k] * *reinterpret_cast<const Float4*>(src + 4 * k);
    *reinterpret_cast<Float4*>(dst + 4 * i) = sum;
  }
}

/// The same for any number of them.
TRAINER_MULTIVERSION void blend_many_pixels(const float* __restrict line, const Taps& taps, int64_t out,
                                            float* __restrict dst) {
  for (int64_t i = 0; i < out; ++i) {
    const float* src = line + 4 * (taps.first[static_cast<size_t>(i)] - taps.range.first);
    const float* weights = taps.of(i);
    Float4 sum = {0, 0, 0, 0};
    for (int64_t k = 0; k < taps.longest; ++k)
      sum += weights[k] * *reinterpret_cast<const Float4*>(src + 4 * k);
    *reinterpret_cast<Float4*>(dst + 4 * i) = sum;
  }
}

using BlendPixels = void (*)(const float*, const Taps&, int64_t, float*);

/// All sums of an image have the longest one's length, so that the loop over them has a constant end.
BlendPixels blend_pixels_for(int64_t longest) {
  constexpr std::array<BlendPixels, 9> kBySize = {nullptr,         blend_pixels<1>, blend_pixels<2>,
                                                  blend_pixels<3>, blend_pixels<4>, blend_pixels<5>,
                                                  blend_pixels<6>, blend_pixels<7>, blend_pixels<8>};
  return longest < static_cast<int64_t>(kBySize.size()) ? kBySize[static_cast<size_t>(longest)]
                                                        : blend_many_pixels;
}

/// Weights are non-negative and add up to 1, so that only rounding can exceed 255.
inline uint8_t to_byte(float value) {
  const float raised = value + 0.5f;
  return static_cast<uint8_t>(std::min(static_cast<int32_t>(raised), 255));
}

TRAINER_MULTIVERSION void split_pixels(const float* __restrict pixels, int64_t count, int64_t channel,
                                       uint8_t* __restrict dst) {
  for (int64_t i = 0; i < count; ++i) dst[i] = to_byte(pixels[4 * i + channel]);
}

/// One channel: as blend_pixels, straight to bytes.
void blend_single(const float* line, const Taps& taps, int64_t out, uint8_t* dst) {
  for (int64_t i = 0; i < out; ++i) {
    const float* src = line + taps.first[static_cast<size_t>(i)] - taps.range.first;
    const float* weights = taps.of(i);
    float sum = 0;
    for (int64_t k = 0; k < taps.count[static_cast<size_t>(i)]; ++k) sum += weights[k] * src[k];
    dst[i] = to_byte(sum);
  }
}

}  // namespace

PixelRange pixels_read(const AxisView& axis) {
  const double reach = support(axis);
  const auto first = static_cast<int64_t>(std::floor(axis.begin - reach));
  const auto end = static_cast<int64_t>(std::ceil(axis.begin + axis.length + reach));
  const int64_t low = std::clamp(first, axis.low, axis.high - 1);
  return {low, std::clamp(end, low + 1, axis.high)};
}

void resample(const PixelRows& rows, const View& view, Image& into) {
  const Taps y = make_taps(view.y), x = make_taps(view.x);
  const int64_t bytes = 4 * (x.range.end - x.range.first), plane = view.y.out * view.x.out;
  into.resize(3, view.y.out, view.x.out);
  // After a line come zeros, for sums that are shorter than the longest.
  into.lines.resize(static_cast<size_t>(bytes + 4 * (x.longest + view.x.out)));
  float* line = into.lines.data();
  float* pixels = line + bytes + 4 * x.longest;
  std::fill(line + bytes, pixels, 0.0f);
  const BlendPixels blend = blend_pixels_for(x.longest);
  for (int64_t row = 0; row < view.y.out; ++row) {
    const auto index = static_cast<size_t>(row);
    const uint8_t* src = rows.data + y.first[index] * rows.stride + 4 * x.range.first;
    blend_rows(src, rows.stride, y.of(row), y.count[index], line, bytes);
    blend(line, x, view.x.out, pixels);
    for (int64_t c = 0; c < 3; ++c) {
      split_pixels(pixels, view.x.out, c, into.pixels.data() + c * plane + row * view.x.out);
    }
  }
}

void resample(Image& image, const View& view) {
  const Taps y = make_taps(view.y), x = make_taps(view.x);
  const int64_t width = x.range.end - x.range.first, channels = image.channels;
  image.lines.resize(static_cast<size_t>(width));
  image.spare.resize(static_cast<size_t>(channels * view.y.out * view.x.out));
  uint8_t* dst = image.spare.data();
  for (int64_t c = 0; c < channels; ++c) {
    const uint8_t* plane = image.pixels.data() + c * image.height * image.width;
    for (int64_t row = 0; row < view.y.out; ++row, dst += view.x.out) {
      const auto index = static_cast<size_t>(row);
      const uint8_t* src = plane + y.first[index] * image.width + x.range.first;
      blend_rows(src, image.width, y.of(row), y.count[index], image.lines.data(), width);
      blend_single(image.lines.data(), x, view.x.out, dst);
    }
  }
  if (!image.mask.empty()) {
    resample_mask(image.mask, image.width, view, image.spare_mask);
    std::swap(image.mask, image.spare_mask);
  }
  std::swap(image.pixels, image.spare);
  image.height = view.y.out;
  image.width = view.x.out;
}

void resample_mask(const std::vector<uint8_t>& mask, int64_t width, const View& view,
                   std::vector<uint8_t>& into) {
  const auto nearest = [](const AxisView& axis, int64_t i) {
    const double centre = axis.begin + (static_cast<double>(i) + 0.5) * axis.scale();
    return std::clamp(static_cast<int64_t>(std::floor(centre)), axis.low, axis.high - 1);
  };
  into.resize(static_cast<size_t>(view.y.out * view.x.out));
  uint8_t* dst = into.data();
  for (int64_t y = 0; y < view.y.out; ++y) {
    const uint8_t* row = mask.data() + nearest(view.y, y) * width;
    for (int64_t x = 0; x < view.x.out; ++x) *dst++ = row[nearest(view.x, x)];
  }
}

}  // namespace trainer
