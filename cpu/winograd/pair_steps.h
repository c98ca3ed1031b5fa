// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

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

  /// Inputs are summed one group after the other, so that a group's part of u stays in a cache, and sums are
  /// short: they round less.
  int64_t groups() const { return blocks_of(in_blocks_, group_blocks()); }
  /// Floats that the transformed weights of a pair take, for one group of inputs.
  int64_t u_floats() const { return u_position() * kPositions; }
  /// Pairs of outputs, each with all groups of inputs: number pair * groups() + group.
  int64_t weights() const { return pairs() * groups(); }
  void transform_weights(const void* w, int64_t number, float* u) const {
    transform_weights(w, number % groups(), number / groups(), u);
  }
  /// The weights of a pair of outputs and of a group of inputs -> u.
  void transform_weights(const void* w, int64_t group, int64_t pair, float* u) const;
  /// The pixels of one block of inputs -> v.
  void transform_pixels(const void* x, int64_t in_block, Tiles tiles, Positions v) const;
  /// v of a group of inputs, with tiles from `first` on, times u -> m of two blocks. The first group's sums
  /// replace the contents of m, the others' are added.
  void multiply(int64_t group, int64_t pair, int64_t tiles, const float* v, int64_t first, TileRoom v_room,
                const float* u, float* m, TileRoom m_room) const;
  /// m of two blocks -> the results of these tiles.
  void transform_results(const Forward::Call& call, int64_t pair, Tiles tiles, float* m,
                         TileRoom m_room) const;

 private:
  int64_t vectors(int64_t pair) const { return out_blocks_ - 2 * pair > 1 ? 2 : 1; }
  int64_t group_blocks() const { return kInputsOfGroup / kernels_.lanes; }
  Tiles blocks_of_group(int64_t group) const {
    const int64_t begin = group * group_blocks();
    return {begin, std::min(group_blocks(), in_blocks_ - begin)};
  }
  int64_t u_position() const {
    return std::min(group_blocks(), in_blocks_) * kernels_.lanes * 2 * kernels_.lanes + kPad;
  }

  static constexpr int64_t kInputsOfGroup = 128;

  const Kernels& kernels_;
  int64_t in_blocks_, out_blocks_, outputs_;
  bool reversed_;
  Grid x_grid_, y_grid_;
};

}  // namespace trainer::cpu::winograd
