// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/winograd/gradient_steps.h"

namespace trainer::cpu::winograd {
namespace {

/// Channels of a block of dw; its products at all positions stay in the second-level cache.
constexpr int64_t kInputsOfBlock = 32, kOutputsOfBlock = 64;
/// This many tiles are transformed at once if there are no more; otherwise this many at a time.
constexpr int64_t kMostTiles = 128, kSomeTiles = 64;

class BackwardWeightsByBlocks final : public BackwardWeights {
 public:
  BackwardWeightsByBlocks(const Kernels& kernels, const Geometry& geometry, int64_t threads)
      : steps_(kernels, geometry),
        outputs_(geometry.outputs),
        all_{0, geometry.tiles()},
        passes_(all_.count <= kMostTiles ? 1 : blocks_of(all_.count, kSomeTiles)),
        room_(blocks_of(all_.count, passes_), kernels.lanes),
        largest_{0, kInputsOfBlock / kernels.lanes, 0, kOutputsOfBlock / kernels.lanes},
        columns_(blocks_of(steps_.out_blocks(), largest_.out_count)),
        regions_(columns_ * blocks_of(steps_.in_blocks(), largest_.in_count)),
        parts_(std::min(threads, regions_)) {}

  int64_t workspace_floats() const override {
    return sum_floats() + (steps_.in_blocks() + steps_.out_blocks()) * room_.block +
           (passes_ > 1 ? regions_ : parts_) * steps_.m_floats(largest_);
  }

  void run(const Call& call) const override {
    std::fill_n(call.workspace, sum_floats(), 0.0f);
    for (int64_t pass = 0; pass < passes_; ++pass) {
      const Tiles tiles = part_of(all_, pass, passes_);
      transform(call, tiles);
      parallel_ranges(parts_, 1, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) run_part(call, part, pass, tiles.count);
      });
    }
    if (call.db != nullptr) std::copy_n(call.workspace, outputs_, call.db);
  }

 private:
  int64_t sum_floats() const { return blocks_of(steps_.out_blocks() * steps_.kernels().lanes, kPad) * kPad; }
  float* v_of(const Call& call) const { return call.workspace + sum_floats(); }
  float* g_of(const Call& call) const { return v_of(call) + steps_.in_blocks() * room_.block; }
  float* m_of(const Call& call, int64_t number) const {
    return g_of(call) + steps_.out_blocks() * room_.block + number * steps_.m_floats(largest_);
  }

  /// Each block of channels of either tensor belongs to one thread.
  void transform(const Call& call, Tiles tiles) const {
    const int64_t in_blocks = steps_.in_blocks(), lanes = steps_.kernels().lanes;
    parallel_ranges(in_blocks + steps_.out_blocks(), 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i < in_blocks) {
          steps_.transform_pixels(call.x, i, tiles, room_.of(v_of(call), i));
          continue;
        }
        const int64_t block = i - in_blocks;
        steps_.transform_gradients(call.dy, block, tiles, room_.of(g_of(call), block),
                                   call.db != nullptr ? call.workspace + block * lanes : nullptr);
      }
    });
  }

  Region region(int64_t number) const {
    Region region = largest_;
    region.in_block = number / columns_ * largest_.in_count;
    region.out_block = number % columns_ * largest_.out_count;
    region.in_count = std::min(region.in_count, steps_.in_blocks() - region.in_block);
    region.out_count = std::min(region.out_count, steps_.out_blocks() - region.out_block);
    return region;
  }

  void run_part(const Call& call, int64_t part, int64_t pass, int64_t tiles) const {
    const Tiles mine = part_of({0, regions_}, part, parts_);
    for (int64_t i = mine.begin; i < mine.begin + mine.count; ++i) {
      const Region region = this->region(i);
      float* m = m_of(call, passes_ > 1 ? i : part);
      steps_.multiply(region, room_, tiles, v_of(call), g_of(call), pass > 0, m);
      if (pass + 1 < passes_) continue;
      for (int64_t out = 0; out < region.out_count; ++out) {
        for (int64_t in = 0; in < region.in_count; ++in) steps_.finish(region, in, out, m, 1, 0, call.dw);
      }
    }
  }

  GradientSteps steps_;
  int64_t outputs_;
  Tiles all_;
  int64_t passes_;
  TileRoom room_;
  Region largest_;
  int64_t columns_, regions_, parts_;
};

}  // namespace

std::unique_ptr<BackwardWeights> backward_weights_by_blocks(const Kernels& kernels, const Geometry& geometry,
                                                            int64_t threads) {
  return std::make_unique<BackwardWeightsByBlocks>(kernels, geometry, threads);
}

}  // namespace trainer::cpu::winograd
