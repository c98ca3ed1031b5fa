// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/positions.h"

#include <cstring>

#include "core/graph/ops/rotary.h"
#include "cpu/parallel.h"
#include "cpu/table.h"
#include "cpu/table_rows.h"

namespace trainer::cpu {
namespace {

/// Slots of the inputs that determine tokens' positions.
struct PositionSlots {
  void* const* first;
  void* const* start;
  int64_t length;

  TableRows rows() const {
    return {.first = first == nullptr ? nullptr : at<const int32_t>(first),
            .start = start == nullptr ? nullptr : at<const int32_t>(start),
            .length = length};
  }
};

template <class T>
TRAINER_MULTIVERSION void add_table_row(const T* x, const float* row, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(float(x[i]) + row[i], y[i]);
}

/// Calls of_token(x, row, y) for each token: its features, its row of the table, its destination.
template <class OfToken>
std::unique_ptr<Kernel> token_kernel(const OpContext& c, const Slots& slots, const OfToken& of_token) {
  const Shape &shape = c.inputs[position_input::kX].shape,
              &table_shape = c.inputs[position_input::kTable].shape;
  const int64_t tokens = shape[0] * shape[1], width = shape[2], row_width = table_shape[1];
  const PositionSlots positions{slots.inputs[position_input::kFirstPosition],
                                slots.inputs[position_input::kStart], shape[1]};
  return with_storage(c.inputs[position_input::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, x = slots.inputs[position_input::kX], table = slots.inputs[position_input::kTable],
                   y = slots.outputs[AddPositions::kY]] {
      parallel_rows(tokens, width, [=, row_of = positions.rows()](int64_t begin, int64_t end) {
        for (int64_t token = begin; token < end; ++token) {
          of_token(at<const T>(x) + token * width, at<const float>(table) + row_of(token) * row_width,
                   at<T>(y) + token * width);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> compile_add_positions(const OpContext& c, const Choice&, const Slots& slots) {
  return token_kernel(
      c, slots, [width = c.inputs[position_input::kX].shape[2]](const auto* x, const float* row, auto* y) {
        add_table_row(x, row, y, width);
      });
}

std::unique_ptr<Kernel> compile_add_positions_backward(const OpContext& c, const Choice&,
                                                       const Slots& slots) {
  const Shape& shape = c.inputs[AddPositionsBackward::kDy].shape;
  const int64_t tokens = shape[0] * shape[1], width = shape[2],
                rows = c.outputs[AddPositionsBackward::kDtable].shape[0];
  const PositionSlots positions{slots.inputs[AddPositionsBackward::kFirstPosition],
                                slots.inputs[AddPositionsBackward::kStart], shape[1]};
  return kernel([=, dtype = c.inputs[AddPositionsBackward::kDy].dtype,
                 dy = slots.inputs[AddPositionsBackward::kDy],
                 dw = slots.outputs[AddPositionsBackward::kDtable]] {
    sum_table_rows(positions.rows(), tokens, width, dtype, *dy, rows, at<float>(dw));
  });
}

/// Turns the pairs (a[i], b[i]), `step` elements apart, by angles of these cosines and sines. y may be x.
template <class T, int64_t step>
TRAINER_MULTIVERSION void turn(const T* a, const T* b, const float* cosines, const float* sines, float sign,
                               T* to_a, T* to_b, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float of_a = float(a[i * step]), of_b = float(b[i * step]), sine = sign * sines[i];
    put(of_a * cosines[i] - of_b * sine, to_a[i * step]);
    put(of_b * cosines[i] + of_a * sine, to_b[i * step]);
  }
}

/// One token: its heads, and the features that stay unchanged.
template <class T>
void turn_heads(const RotarySettings& settings, int64_t width, const T* x, const float* row, T* y) {
  const int64_t half = settings.features / 2;
  const float sign = settings.inverse ? -1.0f : 1.0f;
  if (x != y) std::memcpy(y, x, static_cast<size_t>(width) * sizeof(T));
  for (int64_t begin = 0; begin < settings.heads * settings.size; begin += settings.size) {
    if (settings.interleaved) {
      turn<T, 2>(x + begin, x + begin + 1, row, row + half, sign, y + begin, y + begin + 1, half);
    } else {
      turn<T, 1>(x + begin, x + begin + half, row, row + half, sign, y + begin, y + begin + half, half);
    }
  }
}

std::unique_ptr<Kernel> compile_rotary(const OpContext& c, const Choice&, const Slots& slots) {
  const RotarySettings settings = static_cast<const Rotary&>(c.op).settings;
  return token_kernel(
      c, slots, [=, width = c.inputs[position_input::kX].shape[2]](const auto* x, const float* row, auto* y) {
        turn_heads(settings, width, x, row, y);
      });
}

}  // namespace

void add_positions(Handlers& handlers) {
  handlers[typeid(AddPositions)] = {select_row_major, compile_add_positions, {}};
  handlers[typeid(AddPositionsBackward)] = {select_row_major, compile_add_positions_backward, {}};
  handlers[typeid(Rotary)] = {select_row_major, compile_rotary, {}};
}

}  // namespace trainer::cpu
