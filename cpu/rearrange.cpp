// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rearrange.h"

#include <algorithm>
#include <cstring>

#include "cpu/parallel.h"
#include "cpu/table.h"
#include "cpu/table_rows.h"

namespace trainer::cpu {
namespace {

std::unique_ptr<Kernel> compile_pad(const OpContext& c, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const Pad&>(c.op);
  const Shape& shape = c.inputs[Pad::kX].shape;
  int64_t outer = 1, inner = bytes_per_element(c.inputs[Pad::kX].dtype);
  for (int64_t d = 0; d < op.axis; ++d) outer *= shape[static_cast<size_t>(d)];
  for (size_t d = static_cast<size_t>(op.axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  const int64_t length = shape[static_cast<size_t>(op.axis)] * inner, before = op.before * inner,
                after = op.after * inner, row = before + length + after;
  return kernel([=, x = slots.inputs[Pad::kX], y = slots.outputs[Pad::kY]] {
    parallel_rows(outer, row / 4, [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        char* to = at<char>(y) + o * row;
        std::memset(to, 0, static_cast<size_t>(before));
        std::memcpy(to + before, at<const char>(x) + o * length, static_cast<size_t>(length));
        std::memset(to + before + length, 0, static_cast<size_t>(after));
      }
    });
  });
}

/// x (rows, columns) with rows `step` elements apart -> y (columns, rows), in squares that stay in the cache.
template <class T>
void transpose_matrix(const T* x, int64_t rows, int64_t columns, int64_t step, T* y, int64_t y_step) {
  constexpr int64_t kSide = 32;
  for (int64_t row = 0; row < rows; row += kSide) {
    for (int64_t column = 0; column < columns; column += kSide) {
      for (int64_t j = column; j < std::min(column + kSide, columns); ++j) {
        for (int64_t i = row; i < std::min(row + kSide, rows); ++i) y[j * y_step + i] = x[i * step + j];
      }
    }
  }
}

/// Single elements are exchanged: (outer, a, middle, b) -> (outer, b, middle, a).
template <class T>
std::unique_ptr<Kernel> element_kernel(const TransposedSizes& e, const Slots& slots) {
  return kernel([=, x = slots.inputs[Transpose::kX], y = slots.outputs[Transpose::kY]] {
    const int64_t matrix = e.a * e.b, all = matrix * e.middle;
    parallel_rows(e.outer * e.middle, matrix, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t before = i / e.middle * all, middle = i % e.middle;
        transpose_matrix(at<const T>(x) + before + middle * e.b, e.a, e.b, e.middle * e.b,
                         at<T>(y) + before + middle * e.a, e.middle * e.a);
      }
    });
  });
}

/// Pieces of several elements are: (outer, b, middle, a) pieces, each copied from its place in x.
std::unique_ptr<Kernel> piece_kernel(const TransposedSizes& e, int64_t element_bytes, const Slots& slots) {
  const int64_t bytes = e.inner * element_bytes;
  return kernel([=, x = slots.inputs[Transpose::kX], y = slots.outputs[Transpose::kY]] {
    parallel_rows(e.outer * e.b * e.middle, e.a * e.inner, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t middle = i % e.middle, b = i / e.middle % e.b, outer = i / e.middle / e.b;
        for (int64_t a = 0; a < e.a; ++a) {
          const int64_t from = ((outer * e.a + a) * e.middle + middle) * e.b + b;
          std::memcpy(at<char>(y) + (i * e.a + a) * bytes, at<const char>(x) + from * bytes,
                      static_cast<size_t>(bytes));
        }
      }
    });
  });
}

std::unique_ptr<Kernel> compile_transpose(const OpContext& c, const Choice&, const Slots& slots) {
  const TransposedSizes e(static_cast<const Transpose&>(c.op), c.inputs[Transpose::kX].shape);
  if (e.inner > 1) return piece_kernel(e, bytes_per_element(c.inputs[Transpose::kX].dtype), slots);
  return with_storage(c.inputs[Transpose::kX].dtype,
                      [&](auto element) { return element_kernel<decltype(element)>(e, slots); });
}

std::unique_ptr<Kernel> compile_repeat_samples(const OpContext& c, const Choice&, const Slots& slots) {
  const int64_t samples = c.outputs[RepeatSamples::kY].shape[0],
                count = numel(c.inputs[RepeatSamples::kX].shape);
  const auto bytes = static_cast<size_t>(count * bytes_per_element(c.inputs[RepeatSamples::kX].dtype));
  return kernel([=, x = slots.inputs[RepeatSamples::kX], y = slots.outputs[RepeatSamples::kY]] {
    parallel_rows(samples, count, [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        std::memcpy(at<char>(y) + n * static_cast<int64_t>(bytes), at<const char>(x), bytes);
    });
  });
}

/// Samples as tokens that read the only row of a table.
std::unique_ptr<Kernel> compile_sum_samples(const OpContext& c, const Choice&, const Slots& slots) {
  const int64_t samples = c.inputs[SumSamples::kDy].shape[0], width = numel(c.outputs[SumSamples::kDx].shape);
  return kernel([=, dtype = c.inputs[SumSamples::kDy].dtype, dy = slots.inputs[SumSamples::kDy],
                 dx = slots.outputs[SumSamples::kDx]] {
    sum_table_rows({.length = 1}, samples, width, dtype, *dy, 1, at<float>(dx));
  });
}

/// The units that the loops move: numbers of 32 or 16 bits.
std::optional<std::string> why_not_moved(const OpContext& c) {
  if (c.inputs[0].dtype == DType::f32 || c.inputs[0].dtype == DType::bf16) return std::nullopt;
  return "it moves f32 and bf16 only";
}

}  // namespace

void add_rearrange(Handlers& handlers) {
  handlers[typeid(Pad)] = {select_row_major, compile_pad, {}};
  handlers[typeid(Transpose)] = {select_row_major, compile_transpose, why_not_moved};
  handlers[typeid(RepeatSamples)] = {select_row_major, compile_repeat_samples, {}};
  handlers[typeid(SumSamples)] = {select_row_major, compile_sum_samples, {}};
}

}  // namespace trainer::cpu
