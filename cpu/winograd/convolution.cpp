// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/convolution.h"

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/winograd/orders.h"
#include "cpu/winograd/pair_steps.h"

namespace trainer::cpu::winograd {
namespace {

/// Threads that are worth starting, of those available.
int64_t useful_threads(const Geometry& g, int threads) {
  constexpr int64_t kProductsWorthAThread = int64_t{1} << 19;  // about 10 us
  return std::clamp<int64_t>(g.tiles() * g.inputs * g.outputs * kPositions / kProductsWorthAThread, 1,
                             threads);
}

}  // namespace

Geometry Geometry::reversed() const {
  return {.images = images,
          .inputs = outputs,
          .outputs = inputs,
          .height = y_height,
          .width = y_width,
          .y_height = height,
          .y_width = width,
          .top = kTaps - 1 - top,
          .left = kTaps - 1 - left,
          .groups = groups};
}

Grid Geometry::grid_of_x(int64_t lanes) const {
  return {.rows = tile_rows(),
          .columns = tile_columns(),
          .height = height,
          .width = width,
          .top = top,
          .left = left,
          .stride = groups * blocks_of(inputs, lanes) * height * width * lanes};
}

Grid Geometry::grid_of_y(int64_t lanes) const {
  return {.rows = tile_rows(),
          .columns = tile_columns(),
          .height = y_height,
          .width = y_width,
          .top = 0,
          .left = 0,
          .stride = groups * blocks_of(outputs, lanes) * y_height * y_width * lanes};
}

int64_t prepared_floats(const Kernels& kernels, const Geometry& geometry) {
  const PairSteps steps(kernels, geometry, false);
  return steps.weights() * steps.u_floats();
}

void prepare_weights(const Kernels& kernels, const Geometry& geometry, const void* w, float* u) {
  const PairSteps steps(kernels, geometry, false);
  parallel_ranges(steps.weights(), 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) steps.transform_weights(w, i, u + i * steps.u_floats());
  });
}

std::unique_ptr<Forward> make_forward(const Kernels& kernels, const Geometry& geometry, bool reversed,
                                      int threads) {
  // The smaller of transformed images and transformed weights is kept in the cache; the other is streamed
  // once.
  const bool few_tiles = 2 * geometry.tiles() <= geometry.outputs;
  const int64_t useful = useful_threads(geometry, threads);
  return few_tiles ? forward_by_outputs(kernels, geometry, reversed, useful)
                   : forward_by_tiles(kernels, geometry, reversed, useful);
}

std::unique_ptr<BackwardWeights> make_backward_weights(const Kernels& kernels, const Geometry& geometry,
                                                       int threads) {
  // Each thread's own sums must stay in the last-level cache, and be worth adding up.
  constexpr int64_t kMostFloats = int64_t{4} << 20;
  const int64_t useful = useful_threads(geometry, threads);
  const bool few_weights = useful * geometry.inputs * geometry.outputs * kPositions <= kMostFloats &&
                           geometry.tiles() >= 2 * kGradientTiles * useful;
  return few_weights ? backward_weights_by_tiles(kernels, geometry, useful)
                     : backward_weights_by_blocks(kernels, geometry, useful);
}

}  // namespace trainer::cpu::winograd
