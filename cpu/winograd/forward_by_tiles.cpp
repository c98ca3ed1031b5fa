// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/winograd/pair_steps.h"

namespace trainer::cpu::winograd {
namespace {

/// Floats of transformed pixels that stay in the second-level cache together with the weights.
constexpr int64_t kCachedFloats = 48 * 1024;

class ForwardByTiles final : public Forward {
 public:
  ForwardByTiles(const Kernels& kernels, const Geometry& geometry, bool reversed, int64_t threads)
      : steps_(kernels, geometry, reversed),
        all_{0, geometry.tiles()},
        parts_(threads),
        block_(block_tiles()),
        room_(block_, kernels.lanes) {}

  int64_t workspace_floats(bool prepared) const override {
    return (prepared ? 0 : floats_of_weights()) + parts_ * floats_of_part();
  }

  void run(const Call& call) const override {
    if (call.u == nullptr) transform_weights(call);
    parallel_ranges(parts_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) run_part(call, part);
    });
  }

 private:
  /// A multiple of the registers' capacity is best; the last part has no more tiles than the others.
  int64_t block_tiles() const {
    const int64_t strip = steps_.kernels().strip, lanes = steps_.kernels().lanes;
    const int64_t of_part = blocks_of(all_.count, parts_);
    const int64_t most = std::clamp(kCachedFloats / (kPositions * steps_.in_blocks() * lanes) / strip * strip,
                                    2 * strip, 6 * strip);
    return blocks_of(of_part, blocks_of(of_part, most));
  }
  int64_t floats_of_part() const { return (steps_.in_blocks() + 2) * room_.block; }
  int64_t floats_of_weights() const { return steps_.weights() * steps_.u_floats(); }

  void transform_weights(const Call& call) const {
    parallel_ranges(parts_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = steps_.weights() * begin / parts_; i < steps_.weights() * end / parts_; ++i)
        steps_.transform_weights(call.w, i, call.workspace + i * steps_.u_floats());
    });
  }

  void run_part(const Call& call, int64_t part) const {
    const float* u = call.u != nullptr ? call.u : call.workspace;
    float* v = call.workspace + (call.u != nullptr ? 0 : floats_of_weights()) + part * floats_of_part();
    float* m = v + steps_.in_blocks() * room_.block;
    const Tiles mine = part_of(all_, part, parts_);
    const int64_t blocks = blocks_of(mine.count, block_);
    for (int64_t i = 0; i < blocks; ++i) {
      const Tiles tiles = part_of(mine, i, blocks);
      for (int64_t block = 0; block < steps_.in_blocks(); ++block)
        steps_.transform_pixels(call.x, block, tiles, room_.of(v, block));
      for (int64_t pair = 0; pair < steps_.pairs(); ++pair) {
        for (int64_t group = 0; group < steps_.groups(); ++group) {
          steps_.multiply(group, pair, tiles.count, v, 0, room_,
                          u + (pair * steps_.groups() + group) * steps_.u_floats(), m, room_);
        }
        steps_.transform_results(call, pair, tiles, m, room_);
      }
    }
  }

  PairSteps steps_;
  Tiles all_;
  int64_t parts_, block_;
  TileRoom room_;
};

}  // namespace

std::unique_ptr<Forward> forward_by_tiles(const Kernels& kernels, const Geometry& geometry, bool reversed,
                                          int64_t threads) {
  return std::make_unique<ForwardByTiles>(kernels, geometry, reversed, threads);
}

}  // namespace trainer::cpu::winograd
