// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/gradient_steps.h"

namespace trainer::cpu::winograd {
namespace {

/// The next number of vectors of outputs: three, but not if a single one of four would remain.
int64_t next_vectors(int64_t left) {
  return left == 4 ? 2 : left < 3 ? left : 3;
}

}  // namespace

void GradientSteps::transform_pixels(const void* x, int64_t in_block, Tiles tiles, Positions v) const {
  const int64_t block = x_grid_.height * x_grid_.width * kernels_.lanes;
  kernels_.transform_x(x_grid_, element(kernels_, x, in_block * block), tiles, v);
}

void GradientSteps::transform_gradients(const void* dy, int64_t out_block, Tiles tiles, Positions g,
                                        float* sums) const {
  const int64_t block = dy_grid_.height * dy_grid_.width * kernels_.lanes;
  kernels_.transform_dy(dy_grid_, element(kernels_, dy, out_block * block), tiles, g, sums);
}

void GradientSteps::multiply(const Region& region, TileRoom room, int64_t tiles, const float* v,
                             const float* g, bool add, float* m) const {
  const int64_t lanes = kernels_.lanes, row = m_row(region);
  for (int64_t p = 0; p < kPositions; ++p) {
    const float* v_blocks = v + p * room.position + region.in_block * room.block;
    const float* g_blocks = g + p * room.position + region.out_block * room.block;
    float* to = m + p * m_position(region);
    for (int64_t out = 0, vectors = 0; out < region.out_count; out += vectors) {
      vectors = next_vectors(region.out_count - out);
      for (int64_t in = 0; in < region.in_count; ++in) {
        kernels_.accumulate(v_blocks + in * room.block, g_blocks + out * room.block, room.block, tiles,
                            vectors, add, to + (in * row + out) * lanes, row);
      }
    }
  }
}

void GradientSteps::finish(const Region& region, int64_t in, int64_t out, const float* m, int64_t parts,
                           int64_t stride, float* dw) const {
  const int64_t lanes = kernels_.lanes, row = m_row(region);
  const int64_t block = (region.out_block + out) * in_blocks_ + region.in_block + in;
  kernels_.transform_dw(m + (in * row + out) * lanes, m_position(region), row, parts, stride,
                        dw + block * kTaps * kTaps * lanes * lanes);
}

}  // namespace trainer::cpu::winograd
