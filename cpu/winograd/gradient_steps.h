// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/winograd/orders.h"

namespace trainer::cpu::winograd {

/// Some blocks of inputs and some of outputs: a part of dw.
struct Region {
  int64_t in_block, in_count, out_block, out_count;
};

/// The steps of a gradient of weights.
class GradientSteps {
 public:
  GradientSteps(const Kernels& kernels, const Geometry& geometry)
      : kernels_(kernels),
        in_blocks_(blocks_of(geometry.inputs, kernels.lanes)),
        out_blocks_(blocks_of(geometry.outputs, kernels.lanes)),
        x_grid_(geometry.grid_of_x(kernels.lanes)),
        dy_grid_(geometry.grid_of_y(kernels.lanes)) {}

  const Kernels& kernels() const { return kernels_; }
  int64_t in_blocks() const { return in_blocks_; }
  int64_t out_blocks() const { return out_blocks_; }
  Region all() const { return {0, in_blocks_, 0, out_blocks_}; }

  /// The pixels of one block of inputs -> v.
  void transform_pixels(const void* x, int64_t in_block, Tiles tiles, Positions v) const;
  /// The gradients of one block of outputs -> g; adds them up in `sums` (lanes) unless that is null.
  void transform_gradients(const void* dy, int64_t out_block, Tiles tiles, Positions g, float* sums) const;

  /// Floats that the products of a region take.
  int64_t m_floats(const Region& region) const { return m_position(region) * kPositions; }
  /// m = (or, if `add`, +=) v times g, summed over the tiles in the workspace. v and g have all blocks.
  void multiply(const Region& region, TileRoom room, int64_t tiles, const float* v, const float* g, bool add,
                float* m) const;
  /// The sums of m over `parts`, which are at `stride` floats -> one block of dw; both blocks count from the
  /// region's.
  void finish(const Region& region, int64_t in, int64_t out, const float* m, int64_t parts, int64_t stride,
              float* dw) const;

 private:
  int64_t m_row(const Region& region) const { return region.out_count * kernels_.lanes; }
  int64_t m_position(const Region& region) const {
    return region.in_count * kernels_.lanes * m_row(region) + kPad;
  }

  const Kernels& kernels_;
  int64_t in_blocks_, out_blocks_;
  Grid x_grid_, dy_grid_;
};

}  // namespace trainer::cpu::winograd
