// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/positions.h"

#include <algorithm>

#include "core/graph/ops/rotary.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Of token t of sample n; `first` and `start` are the numbers of these inputs.
int64_t position(const Call& call, size_t first, size_t start, int64_t n, int64_t t) {
  int64_t p = t;
  if (call.has_input(first)) p += call.in<int32_t>(first)[0];
  if (call.has_input(start)) p -= call.in<int32_t>(start)[n * call.shape_in(0)[1] + t];
  return p;
}

/// Calls visit(offset of the token's features, its position).
template <class Visit>
void for_each_token(const Call& call, size_t first, size_t start, const Visit& visit) {
  const Shape& x = call.shape_in(0);
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t t = 0; t < x[1]; ++t) visit((n * x[1] + t) * x[2], position(call, first, start, n, t));
  }
}

void add_rows(const Call& call) {
  const int64_t width = call.shape_in(position_input::kX)[2];
  for_each_token(call, position_input::kFirstPosition, position_input::kStart, [&](int64_t token, int64_t p) {
    for (int64_t e = 0; e < width; ++e)
      call.out(AddPositions::kY)[token + e] =
          call.in(position_input::kX)[token + e] + call.in(position_input::kTable)[p * width + e];
  });
}

void add_rows_backward(const Call& call) {
  const int64_t width = call.shape_in(AddPositionsBackward::kDy)[2];
  std::fill_n(call.out(AddPositionsBackward::kDtable), call.count_out(AddPositionsBackward::kDtable), 0.0);
  for_each_token(call, AddPositionsBackward::kFirstPosition, AddPositionsBackward::kStart,
                 [&](int64_t token, int64_t p) {
                   for (int64_t e = 0; e < width; ++e)
                     call.out(AddPositionsBackward::kDtable)[p * width + e] +=
                         call.in(AddPositionsBackward::kDy)[token + e];
                 });
}

void rotary(const Call& call) {
  const RotarySettings& settings = call.as<Rotary>().settings;
  std::copy_n(call.in(position_input::kX), call.count_in(position_input::kX), call.out(Rotary::kY));
  const int64_t half = settings.features / 2;
  for_each_token(call, position_input::kFirstPosition, position_input::kStart, [&](int64_t token, int64_t p) {
    for (int64_t head = 0; head < settings.heads; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t begin = token + head * settings.size;
        const int64_t a = begin + (settings.interleaved ? 2 * i : i),
                      b = begin + (settings.interleaved ? 2 * i + 1 : i + half);
        const double cosine = call.in(position_input::kTable)[p * settings.features + i],
                     sine = call.in(position_input::kTable)[p * settings.features + half + i] *
                            (settings.inverse ? -1 : 1);
        const double of_a = call.in(position_input::kX)[a], of_b = call.in(position_input::kX)[b];
        call.out(Rotary::kY)[a] = of_a * cosine - of_b * sine;
        call.out(Rotary::kY)[b] = of_b * cosine + of_a * sine;
      }
    }
  });
}

}  // namespace

void add_positions(Loops& loops) {
  loops[typeid(AddPositions)] = add_rows;
  loops[typeid(AddPositionsBackward)] = add_rows_backward;
  loops[typeid(Rotary)] = rotary;
}

}  // namespace trainer::reference
