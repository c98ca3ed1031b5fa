// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/weight_bits.h"
#include "core/graph/ops/quantize.h"
#include "core/graph/ops/quantized_product.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

using Operand = QuantizedProduct;

uint8_t byte_of(double value) {
  constexpr double kGreatestByte = 255;
  return static_cast<uint8_t>(value > 0 ? std::min(std::nearbyint(value), kGreatestByte) : 0);
}

void quantize(const Call& call) {
  const Quantization& q = call.as<Quantize>().quantization;
  for (int64_t i = 0; i < call.count_in(Quantize::kX); ++i)
    call.out<uint8_t>(Quantize::kY)[i] =
        byte_of(call.in(Quantize::kX)[i] / q.scale + static_cast<double>(q.zero_point));
}

void dequantize(const Call& call) {
  const Quantization& q = call.as<Dequantize>().quantization;
  for (int64_t i = 0; i < call.count_in(Dequantize::kX); ++i)
    call.out(Dequantize::kY)[i] =
        q.scale * static_cast<double>(call.in<uint8_t>(Dequantize::kX)[i] - q.zero_point);
}

void quantize_weights(const Call& call) {
  const WeightLevels& levels = call.as<QuantizeWeights>().levels;
  const auto limit = static_cast<double>(greatest_weight(levels.bits));
  const int64_t outputs = call.shape_in(QuantizeWeights::kWeight)[0],
                all = call.count_in(QuantizeWeights::kWeight), count = all / outputs;
  for (int64_t o = 0; o < outputs; ++o) {
    const double* w = call.in(QuantizeWeights::kWeight) + o * count;
    const double* sharing = levels.per_tensor ? call.in(QuantizeWeights::kWeight) : w;
    double greatest = 0;
    for (int64_t i = 0; i < (levels.per_tensor ? all : count); ++i)
      greatest = std::max(greatest, std::abs(sharing[i]));
    double scale = greatest > 0 ? greatest / limit : 1;
    if (levels.power_of_two) scale = std::exp2(std::ceil(std::log2(scale)));
    // As a float: a device stores it as one, and integers follow from what is stored.
    scale = static_cast<double>(static_cast<float>(scale));
    call.out(QuantizeWeights::kScale)[o] = scale;
    for (int64_t i = 0; i < count; ++i)
      call.out<int8_t>(QuantizeWeights::kIntegers)[o * count + i] =
          static_cast<int8_t>(std::clamp(std::nearbyint(w[i] / scale), -limit, limit));
  }
}

void product_scales(const Call& call) {
  const auto& op = call.as<ProductScales>();
  const int64_t outputs = call.shape_in(ProductScales::kWeight)[0],
                count = call.count_in(ProductScales::kWeight) / outputs;
  for (int64_t o = 0; o < outputs; ++o) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += call.in<int8_t>(ProductScales::kWeight)[o * count + i];
    const double multiplier = op.x.scale * call.in(ProductScales::kScale)[o] / op.y_scale;
    const double bias = call.has_input(ProductScales::kBias) ? call.in(ProductScales::kBias)[o] : 0;
    call.out(ProductScales::kMultiplier)[o] = multiplier;
    call.out(ProductScales::kShiftedBias)[o] =
        bias / op.y_scale - multiplier * static_cast<double>(op.x.zero_point) * sum + op.shift;
  }
}

void observe_range(const Call& call) {
  const auto& op = call.as<ObserveRange>();
  const double* x = call.in(ObserveRange::kX);
  const int64_t count = call.count_in(ObserveRange::kX);
  double least = x[0], greatest = x[0];
  std::vector<int32_t> bins(ObserveRange::kBins);
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(x[i])) {
      least = greatest = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    if (x[i] < least) least = x[i];
    if (x[i] > greatest) greatest = x[i];
    const double part = op.high > op.low ? (x[i] - op.low) / (op.high - op.low) : 0;
    const double place = std::floor(part * static_cast<double>(ObserveRange::kBins));
    ++bins[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(ObserveRange::kBins - 1)))];
  }
  call.out(ObserveRange::kExtremes)[0] = least;
  call.out(ObserveRange::kExtremes)[1] = greatest;
  if (call.has_output(ObserveRange::kCounts))
    std::ranges::copy(bins, call.out<int32_t>(ObserveRange::kCounts));
}

/// Writes y from the sums: element i is of output channel(i).
template <class Channel>
void finish(const Call& call, const QuantizedEnd& end, const std::vector<int64_t>& sums,
            const Channel& channel) {
  const double* const multiplier = call.in(Operand::kMultiplier);
  const double* const bias = call.in(Operand::kBias);
  const bool is_u8 = end.y == DType::u8;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto o = static_cast<size_t>(channel(static_cast<int64_t>(i)));
    double y = multiplier[o] * static_cast<double>(sums[i]) + bias[o];
    if (call.has_input(Operand::kResidual))
      y += end.residual_factor *
           (is_u8 ? call.in<uint8_t>(Operand::kResidual)[i] : call.in(Operand::kResidual)[i]);
    if (end.relu && y < 0) y = 0;
    if (end.relu && y > end.ceiling) y = end.ceiling;
    if (is_u8) {
      call.out<uint8_t>(Operand::kY)[i] = byte_of(y);
    } else {
      call.out(Operand::kY)[i] = y;
    }
  }
}

/// A loop over the output's elements, as the definition has it.
void quantized_conv2d(const Call& call) {
  const auto& op = call.as<QuantizedConv2d>();
  const Conv2dGeometry& g = op.geometry;
  const Shape &x = call.shape_in(Operand::kX), &w = call.shape_in(Operand::kWeight),
              &y = call.shape_out(Operand::kY);
  std::vector<int64_t> sums(static_cast<size_t>(numel(y)));
  for (int64_t i = 0; i < numel(y); ++i) {
    const int64_t column = i % y[3], row = i / y[3] % y[2], o = i / y[3] / y[2] % y[1],
                  n = i / y[3] / y[2] / y[1];
    const int64_t first = o / (w[0] / g.groups) * w[1];
    for (int64_t tap = 0; tap < w[1] * w[2] * w[3]; ++tap) {
      const int64_t c = tap / w[3] / w[2];
      const int64_t from_row = row * g.stride[0] - g.padding[0] + tap / w[3] % w[2] * g.dilation[0];
      const int64_t from_column = column * g.stride[1] - g.padding[1] + tap % w[3] * g.dilation[1];
      if (from_row < 0 || from_row >= x[2] || from_column < 0 || from_column >= x[3]) continue;
      const int64_t from = ((n * x[1] + first + c) * x[2] + from_row) * x[3] + from_column;
      sums[static_cast<size_t>(i)] += int64_t{call.in<uint8_t>(Operand::kX)[from]} *
                                      call.in<int8_t>(Operand::kWeight)[o * w[1] * w[2] * w[3] + tap];
    }
  }
  finish(call, op.end, sums, [&](int64_t i) { return i / (y[2] * y[3]) % y[1]; });
}

void quantized_linear(const Call& call) {
  const int64_t outputs = call.shape_in(Operand::kWeight)[0], features = call.shape_in(Operand::kWeight)[1];
  std::vector<int64_t> sums(static_cast<size_t>(call.count_out(Operand::kY)));
  for (size_t i = 0; i < sums.size(); ++i) {
    const uint8_t* x = call.in<uint8_t>(Operand::kX) + static_cast<int64_t>(i) / outputs * features;
    const int8_t* w = call.in<int8_t>(Operand::kWeight) + static_cast<int64_t>(i) % outputs * features;
    for (int64_t k = 0; k < features; ++k) sums[i] += int64_t{x[k]} * w[k];
  }
  finish(call, call.as<QuantizedLinear>().end, sums, [&](int64_t i) { return i % outputs; });
}

}  // namespace

void add_quantized(Loops& loops) {
  loops[typeid(Quantize)] = quantize;
  loops[typeid(Dequantize)] = dequantize;
  loops[typeid(QuantizeWeights)] = quantize_weights;
  loops[typeid(ProductScales)] = product_scales;
  loops[typeid(ObserveRange)] = observe_range;
  loops[typeid(QuantizedConv2d)] = quantized_conv2d;
  loops[typeid(QuantizedLinear)] = quantized_linear;
}

}  // namespace trainer::reference
