// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/winograd/pair_steps.h"

namespace trainer::cpu::winograd {
namespace {

/// Floats of transformed pixels that stay in the second-level cache beside what they are multiplied with.
constexpr int64_t kCachedFloats = 96 * 1024;

class ForwardByTiles final : public Forward {
 public:
  ForwardByTiles(const Kernels& kernels, const Geometry& geometry, bool reversed, int64_t threads)
      : steps_(kernels, geometry, reversed),
        all_{0, geometry.tiles()},
        parts_(threads),
        block_(block_tiles()),
        room_(block_, kernels.lanes) {}

  int64_t workspace_floats() const override {
    return steps_.u_floats() * steps_.pairs() + parts_ * floats_of_part();
  }

  void run(const Call& call) const override {
    const int64_t in_blocks = steps_.in_blocks();
    parallel_ranges(
        in_blocks * steps_.out_blocks(), 1, blocks_worth_a_thread(), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t out_block = i / in_blocks;
            steps_.transform_weights(call.w, i % in_blocks, out_block, weights_of(call, out_block / 2));
          }
        });
    parallel_ranges(parts_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) run_part(call, part);
    });
  }

 private:
  /// A multiple of what registers hold is best; the last part has no more tiles than the others.
  int64_t block_tiles() const {
    const int64_t strip = steps_.kernels().strip, lanes = steps_.kernels().lanes;
    const int64_t of_part = blocks_of(all_.count, parts_);
    const int64_t most = std::clamp(kCachedFloats / (kPositions * steps_.in_blocks() * lanes) / strip * strip,
                                    2 * strip, 6 * strip);
    return blocks_of(of_part, blocks_of(of_part, most));
  }
  int64_t floats_of_part() const { return (steps_.in_blocks() + 2) * room_.block; }
  int64_t blocks_worth_a_thread() const { return 4; }
  float* weights_of(const Call& call, int64_t pair) const {
    return call.workspace + pair * steps_.u_floats();
  }

  void run_part(const Call& call, int64_t part) const {
    float* v = weights_of(call, steps_.pairs()) + part * floats_of_part();
    float* m = v + steps_.in_blocks() * room_.block;
    const Tiles mine = part_of(all_, part, parts_);
    const int64_t blocks = blocks_of(mine.count, block_);
    for (int64_t i = 0; i < blocks; ++i) {
      const Tiles tiles = part_of(mine, i, blocks);
      for (int64_t block = 0; block < steps_.in_blocks(); ++block)
        steps_.transform_pixels(call.x, block, tiles, room_.of(v, block));
      for (int64_t pair = 0; pair < steps_.pairs(); ++pair)
        steps_.multiply(call, pair, tiles, v, 0, room_, weights_of(call, pair), m, room_);
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
