// SPDX-License-Identifier: Apache-2.0
#include "core/data/shuffle.h"

namespace trainer {
namespace {

class FullShuffle final : public Shuffle {
 public:
  void declare(Fields& /*fields*/) override {}
  ShuffleBlocks blocks() const override { return {}; }
};

class BlockShuffle final : public Shuffle {
 public:
  void declare(Fields& fields) override {
    fields.add("block", &blocks_.block, "adjacent samples of a block, which a disk reads at once")
        .at_least(1)
        .at_most(1 << 30);
    fields.add("window", &blocks_.window, "blocks whose samples are mixed with each other")
        .at_least(1)
        .at_most(1 << 30);
  }
  ShuffleBlocks blocks() const override { return blocks_; }

 private:
  // Of images of 100 KB, 25 MB are read at once, and 4,096 images are mixed.
  ShuffleBlocks blocks_{.block = 256, .window = 16};
};

}  // namespace

const Registry<Shuffle>& shuffles() {
  static const Registry<Shuffle> table = {
      {"full", "any order of all samples", [] { return std::make_unique<FullShuffle>(); }},
      {"blocks",
       "blocks of adjacent samples in random order, and within a window of them any order of samples",
       [] { return std::make_unique<BlockShuffle>(); }}};
  return table;
}

}  // namespace trainer
