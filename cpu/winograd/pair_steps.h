// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/winograd/orders.h"

namespace trainer::cpu::winograd {

/// The steps of a forward convolution. Outputs are taken by pairs of blocks; the last pair may be a single
/// one.
class PairSteps {
 public:
  PairSteps(const Kernels& kernels, const Geometry& geometry, bool reversed)
      : kernels_(kernels),
        in_blocks_(blocks_of(geometry.inputs, kernels.lanes)),
        out_blocks_(blocks_of(geometry.outputs, kernels.lanes)),
        outputs_(geometry.outputs),
        reversed_(reversed),
        x_grid_(geometry.grid_of_x(kernels.lanes)),
        y_grid_(geometry.grid_of_y(kernels.lanes)) {}

  const Kernels& kernels() const { return kernels_; }
  int64_t in_blocks() const { return in_blocks_; }
  int64_t out_blocks() const { return out_blocks_; }
  int64_t pairs() const { return blocks_of(out_blocks_, 2); }

  /// Floats that the transformed weights of a pair take.
  int64_t u_floats() const { return u_position() * kPositions; }
  /// The weights of one block of inputs and one of outputs -> their place in the pair's u.
  void transform_weights(const float* w, int64_t in_block, int64_t out_block, float* u) const;
  /// The pixels of one block of inputs -> v.
  void transform_pixels(const float* x, int64_t in_block, Tiles tiles, Positions v) const;
  /// v of all blocks of inputs times u of a pair -> m of two blocks -> the results of these tiles.
  void multiply(const Forward::Call& call, int64_t pair, Tiles tiles, const float* v, int64_t v_first,
                TileRoom v_room, const float* u, float* m, TileRoom m_room) const;

 private:
  int64_t vectors(int64_t pair) const { return out_blocks_ - 2 * pair > 1 ? 2 : 1; }
  int64_t u_position() const { return in_blocks_ * kernels_.lanes * 2 * kernels_.lanes + kPad; }

  const Kernels& kernels_;
  int64_t in_blocks_, out_blocks_, outputs_;
  bool reversed_;
  Grid x_grid_, y_grid_;
};

}  // namespace trainer::cpu::winograd
