// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/winograd/gradient_steps.h"

namespace trainer::cpu::winograd {
namespace {

class BackwardWeightsByTiles final : public BackwardWeights {
 public:
  BackwardWeightsByTiles(const Kernels& kernels, const Geometry& geometry, int64_t threads)
      : steps_(kernels, geometry),
        outputs_(geometry.outputs),
        all_{0, geometry.tiles()},
        parts_(std::min(threads, all_.count)),
        block_(blocks_of(of_part(), blocks_of(of_part(), kGradientTiles))),
        room_(block_, kernels.lanes) {}

  int64_t workspace_floats() const override { return parts_ * floats_of_part(); }

  void run(const Call& call) const override {
    parallel_ranges(parts_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) run_part(call, part);
    });
    const Region all = steps_.all();
    parallel_ranges(all.in_count * all.out_count, 1, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        steps_.finish(all, i % all.in_count, i / all.in_count, call.workspace, parts_, floats_of_part(),
                      call.dw);
      }
    });
    for (int64_t i = 0; i < outputs_ && call.db != nullptr; ++i) {
      float sum = 0;
      for (int64_t part = 0; part < parts_; ++part) sum += sums_of(call, part)[i];
      call.db[i] = sum;
    }
  }

 private:
  int64_t of_part() const { return blocks_of(all_.count, parts_); }
  int64_t sum_floats() const { return blocks_of(steps_.out_blocks() * steps_.kernels().lanes, kPad) * kPad; }
  /// Products, sums of the gradients, then v and g.
  int64_t floats_of_part() const {
    return steps_.m_floats(steps_.all()) + sum_floats() +
           (steps_.in_blocks() + steps_.out_blocks()) * room_.block;
  }
  float* sums_of(const Call& call, int64_t part) const {
    return call.workspace + part * floats_of_part() + steps_.m_floats(steps_.all());
  }

  void run_part(const Call& call, int64_t part) const {
    const int64_t lanes = steps_.kernels().lanes;
    float *m = call.workspace + part * floats_of_part(), *sums = sums_of(call, part);
    float *v = sums + sum_floats(), *g = v + steps_.in_blocks() * room_.block;
    std::fill_n(sums, sum_floats(), 0.0f);
    const Tiles mine = part_of(all_, part, parts_);
    const int64_t blocks = blocks_of(mine.count, block_);
    for (int64_t i = 0; i < blocks; ++i) {
      const Tiles tiles = part_of(mine, i, blocks);
      for (int64_t block = 0; block < steps_.in_blocks(); ++block)
        steps_.transform_pixels(call.x, block, tiles, room_.of(v, block));
      for (int64_t block = 0; block < steps_.out_blocks(); ++block) {
        steps_.transform_gradients(call.dy, block, tiles, room_.of(g, block),
                                   call.db != nullptr ? sums + block * lanes : nullptr);
      }
      steps_.multiply(steps_.all(), room_, tiles.count, v, g, i > 0, m);
    }
  }

  GradientSteps steps_;
  int64_t outputs_;
  Tiles all_;
  int64_t parts_, block_;
  TileRoom room_;
};

}  // namespace

std::unique_ptr<BackwardWeights> backward_weights_by_tiles(const Kernels& kernels, const Geometry& geometry,
                                                           int64_t threads) {
  return std::make_unique<BackwardWeightsByTiles>(kernels, geometry, threads);
}

}  // namespace trainer::cpu::winograd
