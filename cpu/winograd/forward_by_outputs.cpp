// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/winograd/pair_steps.h"

namespace trainer::cpu::winograd {
namespace {

/// Tiles of one block of channels that a thread transforms at least.
constexpr int64_t kTilesWorthAPiece = 32;

class ForwardByOutputs final : public Forward {
 public:
  ForwardByOutputs(const Kernels& kernels, const Geometry& geometry, bool reversed, int64_t threads)
      : steps_(kernels, geometry, reversed),
        all_{0, geometry.tiles()},
        parts_(threads),
        shares_(std::clamp<int64_t>(parts_ / steps_.pairs(), 1, blocks_of(all_.count, kernels.strip))),
        pieces_(
            std::clamp<int64_t>(all_.count / kTilesWorthAPiece, 1, blocks_of(parts_, steps_.in_blocks()))),
        v_room_(all_.count, kernels.lanes),
        m_room_(blocks_of(all_.count, shares_), kernels.lanes) {}

  int64_t workspace_floats(bool /*prepared*/) const override {
    return steps_.in_blocks() * v_room_.block + parts_ * floats_of_part();
  }

  void run(const Call& call) const override {
    parallel_ranges(steps_.in_blocks() * pieces_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t block = i / pieces_;
        const Tiles tiles = part_of(all_, i % pieces_, pieces_);
        Positions v = v_room_.of(call.workspace, block);
        v.data += tiles.begin * steps_.kernels().lanes;
        steps_.transform_pixels(call.x, block, tiles, v);
      }
    });
    parallel_ranges(parts_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) run_part(call, part);
    });
  }

 private:
  int64_t floats_of_part() const { return steps_.u_floats() + 2 * m_room_.block; }

  /// Of all pairs of outputs, each with all shares of the tiles.
  void run_part(const Call& call, int64_t part) const {
    float* u = call.workspace + steps_.in_blocks() * v_room_.block + part * floats_of_part();
    float* m = u + steps_.u_floats();
    const Tiles mine = part_of({0, steps_.pairs() * shares_}, part, parts_);
    for (int64_t i = mine.begin; i < mine.begin + mine.count; ++i) {
      const int64_t pair = i / shares_;
      const Tiles tiles = part_of(all_, i % shares_, shares_);
      for (int64_t group = 0; group < steps_.groups(); ++group) {
        if (call.u == nullptr) steps_.transform_weights(call.w, group, pair, u);
        const float* weights =
            call.u == nullptr ? u : call.u + (pair * steps_.groups() + group) * steps_.u_floats();
        steps_.multiply(group, pair, tiles.count, call.workspace, tiles.begin, v_room_, weights, m, m_room_);
      }
      steps_.transform_results(call, pair, tiles, m, m_room_);
    }
  }

  PairSteps steps_;
  Tiles all_;
  int64_t parts_;
  int64_t shares_;  ///< of the tiles, if there are more threads than pairs of outputs
  int64_t pieces_;  ///< of the tiles, if there are more threads than blocks of inputs
  TileRoom v_room_, m_room_;
};

}  // namespace

std::unique_ptr<Forward> forward_by_outputs(const Kernels& kernels, const Geometry& geometry, bool reversed,
                                            int64_t threads) {
  return std::make_unique<ForwardByOutputs>(kernels, geometry, reversed, threads);
}

}  // namespace trainer::cpu::winograd
