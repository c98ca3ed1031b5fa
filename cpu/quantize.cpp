// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/base/weight_bits.h"
#include "cpu/columns.h"
#include "cpu/onednn.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// The mapping of numbers to bytes: number * inverse + zero, rounded.
struct ToBytes {
  float inverse, zero;
  explicit ToBytes(const Quantization& q)
      : inverse(static_cast<float>(1 / q.scale)), zero(static_cast<float>(q.zero_point)) {}

  /// Adding 3 * 2^22 leaves no bits for a fraction: the sum is rounded to the nearest number, ties to even.
  inline __attribute__((always_inline)) uint8_t operator()(float x) const {
    constexpr float kRounds = 12582912.0F, kGreatest = 255;
    const float y = x * inverse + zero;
    const float low = y > 0 ? y : 0;  // of a NaN, too
    const float clipped = low < kGreatest ? low : kGreatest;
    return static_cast<uint8_t>(static_cast<int32_t>((clipped + kRounds) - kRounds));
  }
};

TRAINER_MULTIVERSION void quantize_range(const float* x, uint8_t* y, int64_t count, ToBytes map) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = map(x[i]);
}

/// Pixels with `lanes` neighbouring channels each, to places `step` apart. kLanes: the same, if it is known.
template <int64_t kLanes>
TRAINER_MULTIVERSION void quantize_pixels(const float* x, uint8_t* y, int64_t pixels, int64_t distance,
                                          int64_t lanes, int64_t step, ToBytes map) {
  if constexpr (kLanes != 0) lanes = kLanes;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t lane = 0; lane < lanes; ++lane) y[p * step + lane] = map(x[p * distance + lane]);
  }
}

/// A row of pixels of one block of channels.
void quantize_row(const ChannelBlocks& blocks, int64_t block, const float* x, uint8_t* y, int64_t pixels,
                  ToBytes map) {
  const int64_t lanes = blocks.lanes, used = blocks.lanes_used(block), step = blocks.channels;
  if (lanes == 1) return quantize_pixels<1>(x, y, pixels, lanes, used, step, map);
  if (used == kColumns) return quantize_pixels<kColumns>(x, y, pixels, lanes, used, step, map);
  if (used == kColumns / 2) return quantize_pixels<kColumns / 2>(x, y, pixels, lanes, used, step, map);
  quantize_pixels<0>(x, y, pixels, lanes, used, step, map);
}

/// Images get their channels last, which products in 8 bits read, whatever their layout was.
Choice select_quantize(const OpContext& c, const OpenLayouts& inputs) {
  Choice choice = select_row_major(c, inputs);
  const Shape& shape = c.inputs[Quantize::kX].shape;
  if (shape.size() != 4) return choice;
  choice.outputs[Quantize::kY] = channels_last(shape);
  const Layout now = inputs[Quantize::kX].value_or(Layout{});
  if (now == channels_last(shape) || channel_blocks(now, shape)) choice.inputs[Quantize::kX] = now;
  return choice;
}

std::unique_ptr<Kernel> compile_quantize(const OpContext& c, const Choice& choice, const Slots& slots) {
  const ToBytes map(static_cast<const Quantize&>(c.op).quantization);
  const Shape shape = c.inputs[Quantize::kX].shape;
  void *const *x = slots.inputs[Quantize::kX], *const *y = slots.outputs[Quantize::kY];
  if (choice.inputs[Quantize::kX] == choice.outputs[Quantize::kY]) {
    return kernel([=, count = numel(shape)] {
      parallel_elements(count, [=](int64_t begin, int64_t end) {
        quantize_range(at<const float>(x) + begin, at<uint8_t>(y) + begin, end - begin, map);
      });
    });
  }
  const ChannelBlocks blocks = channel_blocks(choice.inputs[Quantize::kX], shape).value();
  return kernel([=] {
    const int64_t width = shape[3], rows = shape[0] * shape[2];
    parallel_rows(rows, width * blocks.channels, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t sample = row / shape[2], first = row % shape[2] * width;
        for (int64_t block = 0; block < blocks.blocks; ++block) {
          quantize_row(
              blocks, block,
              at<const float>(x) + (sample * blocks.blocks + block) * blocks.run + first * blocks.lanes,
              at<uint8_t>(y) + row * width * blocks.channels + block * blocks.lanes, width, map);
        }
      }
    });
  });
}

TRAINER_MULTIVERSION void dequantize_range(const uint8_t* x, float* y, int64_t count, float scale,
                                           float zero) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = scale * (static_cast<float>(x[i]) - zero);
}

/// Padding of a layout would not stay zero.
Choice select_dequantize(const OpContext& c, const OpenLayouts& inputs) {
  return select_same(c, inputs, c.inputs[Dequantize::kX].shape.size() != 4);
}

std::unique_ptr<Kernel> compile_dequantize(const OpContext& c, const Choice&, const Slots& slots) {
  const Quantization q = static_cast<const Dequantize&>(c.op).quantization;
  return kernel([=, count = numel(c.inputs[Dequantize::kX].shape), x = slots.inputs[Dequantize::kX],
                 y = slots.outputs[Dequantize::kY]] {
    parallel_elements(count, [=](int64_t begin, int64_t end) {
      dequantize_range(at<const uint8_t>(x) + begin, at<float>(y) + begin, end - begin,
                       static_cast<float>(q.scale), static_cast<float>(q.zero_point));
    });
  });
}

std::unique_ptr<Kernel> compile_quantize_weights(const OpContext& c, const Choice&, const Slots& slots) {
  const Shape& shape = c.inputs[QuantizeWeights::kWeight].shape;
  return kernel([levels = static_cast<const QuantizeWeights&>(c.op).levels, outputs = shape[0],
                 count = numel(shape), w = slots.inputs[QuantizeWeights::kWeight],
                 integers = slots.outputs[QuantizeWeights::kIntegers],
                 scale = slots.outputs[QuantizeWeights::kScale]] {
    const std::span weights(at<const float>(w), static_cast<size_t>(count));
    quantize_weights(weights, levels, {at<float>(scale), static_cast<size_t>(outputs)}, at<int8_t>(integers));
  });
}

std::unique_ptr<Kernel> compile_product_scales(const OpContext& c, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const ProductScales&>(c.op);
  const Shape& shape = c.inputs[ProductScales::kWeight].shape;
  const auto zero_point = static_cast<double>(op.x.zero_point);
  return kernel([=, x_scale = op.x.scale, y_scale = op.y_scale, shift = op.shift, outputs = shape[0],
                 count = numel(shape) / shape[0], has_bias = c.has_input(ProductScales::kBias),
                 in = slots.inputs, out = slots.outputs] {
    for (int64_t o = 0; o < outputs; ++o) {
      const int8_t* w = at<const int8_t>(in[ProductScales::kWeight]) + o * count;
      int64_t sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += w[i];
      const double multiplier =
          x_scale * static_cast<double>(at<const float>(in[ProductScales::kScale])[o]) / y_scale;
      const double bias = has_bias ? at<const float>(in[ProductScales::kBias])[o] : 0.0;
      at<float>(out[ProductScales::kMultiplier])[o] = static_cast<float>(multiplier);
      at<float>(out[ProductScales::kShiftedBias])[o] =
          static_cast<float>(bias / y_scale - multiplier * zero_point * static_cast<double>(sum) + shift);
    }
  });
}

std::unique_ptr<Kernel> compile_observe_range(const OpContext& c, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const ObserveRange&>(c.op);
  constexpr int64_t kBins = ObserveRange::kBins;
  const double per_bin = op.high > op.low ? static_cast<double>(kBins) / (op.high - op.low) : 0;
  const bool counts = c.has_output(ObserveRange::kCounts);
  return kernel([=, low = op.low, count = numel(c.inputs[ObserveRange::kX].shape),
                 x_slot = slots.inputs[ObserveRange::kX], out = slots.outputs] {
    const auto* x = at<const float>(x_slot);
    auto* extremes = at<float>(out[ObserveRange::kExtremes]);
    const bool has_nan = std::any_of(x, x + count, [](float value) { return std::isnan(value); });
    const auto [least, greatest] = std::minmax_element(x, x + count);
    extremes[0] = has_nan ? std::numeric_limits<float>::quiet_NaN() : *least;
    extremes[1] = has_nan ? std::numeric_limits<float>::quiet_NaN() : *greatest;
    if (!counts) return;
    auto* bins = at<int32_t>(out[ObserveRange::kCounts]);
    std::fill_n(bins, kBins, 0);
    for (int64_t i = 0; i < count; ++i) {
      if (std::isnan(x[i])) continue;
      const double place = std::floor((static_cast<double>(x[i]) - low) * per_bin);
      ++bins[static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)))];
    }
  });
}

/// Without these instructions a pair of products is clipped to 16 bits; with 7 bits none is that large.
std::optional<std::string> why_not_bits(const OpContext& context) {
  const bool has_vnni = may_use(dnnl::cpu_isa::avx512_core_vnni) || may_use(dnnl::cpu_isa::avx2_vnni);
  if (static_cast<const QuantizeWeights&>(context.op).levels.bits < 8 || has_vnni) return std::nullopt;
  return "this processor has no VNNI, and clips sums of weights of 8 bits; quantise with 7 (--weight-bits, "
         "or compression.quantize.weight_bits)";
}

}  // namespace

void add_quantize(Handlers& handlers) {
  handlers[typeid(Quantize)] = {select_quantize, compile_quantize, {}};
  handlers[typeid(Dequantize)] = {select_dequantize, compile_dequantize, {}};
  handlers[typeid(QuantizeWeights)] = {select_row_major, compile_quantize_weights, why_not_bits};
  handlers[typeid(ProductScales)] = {select_row_major, compile_product_scales, {}};
  handlers[typeid(ObserveRange)] = {select_row_major, compile_observe_range, {}};
}

}  // namespace trainer::cpu
