// SPDX-License-Identifier: Apache-2.0
#include "cpu/max_pool.h"

#include <limits>

#include "core/graph/ops/pool2d.h"
#include "cpu/columns.h"
#include "cpu/parallel.h"

namespace trainer::cpu {
namespace {

/// One dimension of all windows.
struct WindowSteps {
  int64_t kernel, stride, padding, in, out;

  /// The first element of window i that is in the image.
  int64_t first(int64_t i) const { return std::max<int64_t>(0, padding - i * stride); }
  /// Windows with element `e` in the image: from begin_of(e) to end_of(e).
  int64_t begin_of(int64_t e) const { return std::max<int64_t>(0, (padding - e + stride - 1) / stride); }
  int64_t end_of(int64_t e) const {
    const int64_t last = in - 1 + padding - e;
    return last < 0 ? 0 : std::min(out, last / stride + 1);
  }
};

struct MaxWindows {
  explicit MaxWindows(const Conv2dGeometry& g, const Shape& x, const Shape& y)
      : rows{g.kernel[0], g.stride[0], g.padding[0], x[2], y[2]},
        columns{g.kernel[1], g.stride[1], g.padding[1], x[3], y[3]} {}

  WindowSteps rows, columns;
};

/// The windows of a row, of a block of channels that begins at x; neighbouring pixels are `step` elements
/// apart. The first of equal elements wins, NaN over all numbers, and the first element if all are -infinity.
template <int kLanes, class T>
TRAINER_MULTIVERSION void largest_by_lanes(const MaxWindows& w, const T* x, int64_t step, int64_t row, T* y,
                                           uint8_t* places) {
  const int64_t top = row * w.rows.stride - w.rows.padding, first_i = w.rows.first(row),
                end_i = std::min(w.rows.kernel, w.rows.in - top);
  for (int64_t column = 0; column < w.columns.out; ++column, y += step) {
    const int64_t left = column * w.columns.stride - w.columns.padding, first_j = w.columns.first(column),
                  end_j = std::min(w.columns.kernel, w.columns.in - left);
    float largest[kLanes];
    int32_t place[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      largest[l] = -std::numeric_limits<float>::infinity();
      place[l] = static_cast<int32_t>(first_i * w.columns.kernel + first_j);
    }
    for (int64_t i = first_i; i < end_i; ++i) {
      for (int64_t j = first_j; j < end_j; ++j) {
        const T* pixel = x + ((top + i) * w.columns.in + left + j) * step;
        const auto here = static_cast<int32_t>(i * w.columns.kernel + j);
#pragma omp simd
        for (int l = 0; l < kLanes; ++l) {
          const auto value = float(pixel[l]);
          const bool wins = value > largest[l] || value != value;  // NOLINT(misc-redundant-expression)
          largest[l] = wins ? value : largest[l];
          place[l] = wins ? here : place[l];
        }
      }
    }
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) put(largest[l], y[l]);
    if (places == nullptr) continue;
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) places[column * step + l] = static_cast<uint8_t>(place[l]);
  }
}

/// Channels of the smaller of both blocks.
constexpr int64_t kFewLanes = 8;

/// Row-major windows that are compared side by side.
constexpr int64_t kWindowsOfPart = 128;

/// One element of each of `count` windows, which are `step` elements apart.
template <class T>
TRAINER_MULTIVERSION void compare_side_by_side(const T* x, int64_t step, int64_t count, int32_t at,
                                               float* value, int32_t* place) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) {
    const auto candidate = float(x[j * step]);
    const bool wins = candidate > value[j] || candidate != candidate;  // NOLINT(misc-redundant-expression)
    value[j] = wins ? candidate : value[j];
    place[j] = wins ? at : place[j];
  }
}

/// The same of a row-major image.
template <class T>
void largest_of_row(const MaxWindows& w, const T* x, int64_t row, T* y, uint8_t* places) {
  float value[kWindowsOfPart];
  int32_t place[kWindowsOfPart];
  const int64_t top = row * w.rows.stride - w.rows.padding;
  for (int64_t begin = 0; begin < w.columns.out; begin += kWindowsOfPart) {
    const int64_t count = std::min(kWindowsOfPart, w.columns.out - begin);
    std::fill_n(value, count, -std::numeric_limits<float>::infinity());
    for (int64_t j = 0; j < count; ++j)
      place[j] = static_cast<int32_t>(w.rows.first(row) * w.columns.kernel + w.columns.first(begin + j));
    for (int64_t i = w.rows.first(row); i < w.rows.kernel && top + i < w.rows.in; ++i) {
      for (int64_t j = 0; j < w.columns.kernel; ++j) {
        const int64_t from = std::max(begin, w.columns.begin_of(j)),
                      end = std::min(begin + count, w.columns.end_of(j));
        if (from >= end) continue;
        const int64_t column = from * w.columns.stride - w.columns.padding + j;
        compare_side_by_side(x + (top + i) * w.columns.in + column, w.columns.stride, end - from,
                             static_cast<int32_t>(i * w.columns.kernel + j), value + from - begin,
                             place + from - begin);
      }
    }
    for (int64_t j = 0; j < count; ++j) put(value[j], y[begin + j]);
    for (int64_t j = 0; places != nullptr && j < count; ++j)
      places[begin + j] = static_cast<uint8_t>(place[j]);
  }
}

template <int kLanes, class T>
std::unique_ptr<Kernel> pool(const MaxWindows& windows, const ChannelBlocks& x, const Slots& slots) {
  void* const* places_slot = slots.output(MaxPool2d::kPlaces);
  return kernel([=, from = slots.inputs[MaxPool2d::kX], to = slots.outputs[MaxPool2d::kY]] {
    const int64_t rows = windows.rows.out, width = windows.columns.out * kLanes;
    parallel_rows(x.samples * x.blocks * rows, width * windows.rows.kernel, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* image = at<const T>(from) + i / rows * x.run;
        uint8_t* places = places_slot == nullptr ? nullptr : at<uint8_t>(places_slot) + i * width;
        if constexpr (kLanes == 1) {
          largest_of_row(windows, image, i % rows, at<T>(to) + i * width, places);
        } else {
          largest_by_lanes<kLanes>(windows, image, kLanes, i % rows, at<T>(to) + i * width, places);
        }
      }
    });
  });
}

/// Whether images with their channels last are read as they are: in whole blocks of channels, without places,
/// which a gradient would read in another layout.
bool takes_channels_last(const OpContext& c, const std::optional<Layout>& x) {
  const Shape& shape = c.inputs[MaxPool2d::kX].shape;
  return x && *x == channels_last(shape) && !x->row_major() && shape[1] % kFewLanes == 0 &&
         !c.has_output(MaxPool2d::kPlaces);
}

/// The same of images with their channels last.
template <int kLanes, class T>
std::unique_ptr<Kernel> pool_channels_last(const MaxWindows& w, const Shape& x, const Slots& slots) {
  return kernel([=, from = slots.inputs[MaxPool2d::kX], to = slots.outputs[MaxPool2d::kY]] {
    const int64_t channels = x[1], rows = w.rows.out;
    parallel_rows(x[0] * rows, w.columns.out * channels * w.rows.kernel, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t channel = 0; channel < channels; channel += kLanes)
          largest_by_lanes<kLanes, T>(
              w, at<const T>(from) + i / rows * w.rows.in * w.columns.in * channels + channel, channels,
              i % rows, at<T>(to) + i * w.columns.out * channels + channel, nullptr);
      }
    });
  });
}

}  // namespace

Choice select_max_pool(const OpContext& context, const OpenLayouts& inputs) {
  if (takes_channels_last(context, inputs[MaxPool2d::kX])) {
    return {.inputs = {*inputs[MaxPool2d::kX]},
            .outputs = {channels_last(context.outputs[MaxPool2d::kY].shape), Layout{}},
            .implementation = "loop",
            .algorithm = ""};
  }
  const Layout x = blocked_or_row_major(inputs[MaxPool2d::kX], context.inputs[MaxPool2d::kX].shape);
  const int64_t lanes = channel_blocks(x, context.inputs[MaxPool2d::kX].shape)->lanes;
  const Layout y = channel_layout(lanes, context.outputs[MaxPool2d::kY].shape);
  const bool has_places = context.has_output(MaxPool2d::kPlaces);
  return {
      .inputs = {x}, .outputs = {y, has_places ? y : Layout{}}, .implementation = "loop", .algorithm = ""};
}

std::unique_ptr<Kernel> compile_max_pool(const OpContext& context, const Choice& choice, const Slots& slots) {
  const Shape& shape = context.inputs[MaxPool2d::kX].shape;
  const MaxWindows windows(static_cast<const MaxPool2d&>(context.op).geometry, shape,
                           context.outputs[MaxPool2d::kY].shape);
  return with_storage(context.inputs[MaxPool2d::kX].dtype, [&](auto element) {
    using T = decltype(element);
    if (takes_channels_last(context, choice.inputs[MaxPool2d::kX])) {
      return shape[1] % kColumns == 0 ? pool_channels_last<kColumns, T>(windows, shape, slots)
                                      : pool_channels_last<kFewLanes, T>(windows, shape, slots);
    }
    const ChannelBlocks x = *channel_blocks(choice.inputs[MaxPool2d::kX], shape);
    if (x.lanes == 1) return pool<1, T>(windows, x, slots);
    return x.lanes == 8 ? pool<8, T>(windows, x, slots) : pool<16, T>(windows, x, slots);
  });
}

}  // namespace trainer::cpu
