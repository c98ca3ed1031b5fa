// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/pair_steps.h"

#include <algorithm>

#include "core/base/bfloat16.h"

namespace trainer::cpu::winograd {
namespace {

constexpr int64_t kMostLanes = 16;

/// The biases of a block, zero for a missing channel; null if there are none at all.
const float* block_of_bias(const Kernels& kernels, const void* bias, int64_t begin, int64_t end,
                           float* room) {
  if (bias == nullptr) return nullptr;
  std::fill_n(room, kernels.lanes, 0.0f);
  for (int64_t i = begin; i < std::min(begin + kernels.lanes, end); ++i) {
    room[i - begin] = kernels.storage == Storage::f32
                          ? static_cast<const float*>(bias)[i]
                          : static_cast<float>(static_cast<const BFloat16*>(bias)[i]);
  }
  return room;
}

}  // namespace

void PairSteps::transform_weights(const void* w, int64_t group, int64_t pair, float* u) const {
  const int64_t lanes = kernels_.lanes, row = vectors(pair) * lanes;
  const Tiles blocks = blocks_of_group(group);
  for (int64_t i = 0; i < vectors(pair); ++i) {
    const int64_t out_block = 2 * pair + i;
    for (int64_t b = 0; b < blocks.count; ++b) {
      const int64_t in_block = blocks.begin + b;
      const int64_t block =
          reversed_ ? in_block * out_blocks_ + out_block : out_block * in_blocks_ + in_block;
      kernels_.transform_w(element(kernels_, w, block * kTaps * kTaps * lanes * lanes), reversed_,
                           {u + b * lanes * row + i * lanes, u_position()}, row);
    }
  }
}

void PairSteps::transform_pixels(const void* x, int64_t in_block, Tiles tiles, Positions v) const {
  const int64_t block = x_grid_.height * x_grid_.width * kernels_.lanes;
  kernels_.transform_x(x_grid_, element(kernels_, x, in_block * block), tiles, v);
}

void PairSteps::multiply(int64_t group, int64_t pair, int64_t tiles, const float* v, int64_t first,
                         TileRoom v_room, const float* u, float* m, TileRoom m_room) const {
  const Tiles blocks = blocks_of_group(group);
  const float* of_group = v + blocks.begin * v_room.block + first * kernels_.lanes;
  for (int64_t p = 0; p < kPositions; ++p) {
    kernels_.multiply(of_group + p * v_room.position, v_room.block, tiles, blocks.count, u + p * u_position(),
                      vectors(pair), group > 0, m + p * m_room.position, m_room.block);
  }
}

void PairSteps::transform_results(const Forward::Call& call, int64_t pair, Tiles tiles, float* m,
                                  TileRoom m_room) const {
  const int64_t lanes = kernels_.lanes;
  for (int64_t i = 0; i < vectors(pair); ++i) {
    const int64_t block = 2 * pair + i;
    float room[kMostLanes];
    kernels_.transform_y(y_grid_, m_room.of(m, i), tiles,
                         {.bias = block_of_bias(kernels_, call.bias, block * lanes, outputs_, room),
                          .adds = call.adds,
                          .relu = call.relu},
                         element(kernels_, call.y, block * y_grid_.height * y_grid_.width * lanes));
  }
}

}  // namespace trainer::cpu::winograd
