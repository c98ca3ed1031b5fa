// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/pair_steps.h"

#include <algorithm>

namespace trainer::cpu::winograd {
namespace {

constexpr int64_t kMostLanes = 16;

/// The biases of a block, zero where there is no channel; null if there are none at all.
const float* block_of_bias(const float* bias, int64_t begin, int64_t end, int64_t lanes, float* room) {
  if (bias == nullptr) return nullptr;
  std::fill_n(room, lanes, 0.0f);
  std::copy(bias + begin, bias + std::min(begin + lanes, end), room);
  return room;
}

}  // namespace

void PairSteps::transform_weights(const float* w, int64_t group, int64_t pair, float* u) const {
  const int64_t lanes = kernels_.lanes, row = vectors(pair) * lanes;
  const Tiles blocks = blocks_of_group(group);
  for (int64_t i = 0; i < vectors(pair); ++i) {
    const int64_t out_block = 2 * pair + i;
    for (int64_t b = 0; b < blocks.count; ++b) {
      const int64_t in_block = blocks.begin + b;
      const int64_t block =
          reversed_ ? in_block * out_blocks_ + out_block : out_block * in_blocks_ + in_block;
      kernels_.transform_w(w + block * kTaps * kTaps * lanes * lanes, reversed_,
                           {u + b * lanes * row + i * lanes, u_position()}, row);
    }
  }
}

void PairSteps::transform_pixels(const float* x, int64_t in_block, Tiles tiles, Positions v) const {
  kernels_.transform_x(x_grid_, x + in_block * x_grid_.height * x_grid_.width * kernels_.lanes, tiles, v);
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
                         block_of_bias(call.bias, block * lanes, outputs_, lanes, room), call.relu,
                         call.y + block * y_grid_.height * y_grid_.width * lanes);
  }
}

}  // namespace trainer::cpu::winograd
