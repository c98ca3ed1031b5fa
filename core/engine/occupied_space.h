// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer {

/// Bytes [begin, end) at the steps from `first` to `last`, both included.
struct TakenBytes {
  int64_t first, last, begin, end;
};

/// Which bytes are taken at which steps. What is taken lies in the order of its begins, in blocks that are
/// skipped as a whole where nothing in them, or everything, is taken at the steps that are looked at. In a
/// network most blocks are such: they hold the same tensor of consecutive layers.
class OccupiedSpace {
 public:
  void take(const TakenBytes& taken);
  /// The start, a multiple of `alignment`, of the smallest gap that holds `bytes` at all steps from `first`
  /// to `last` between what is taken at any of them; else past its end.
  int64_t best_gap(int64_t first, int64_t last, int64_t bytes, int64_t alignment) const;

 private:
  struct Block {
    std::vector<TakenBytes> taken;
    int64_t least_first = 0, most_first = 0, least_last = 0, most_last = 0;
    int64_t end = 0, largest_gap = 0;  ///< of all in the block
  };
  class Search;
  static void summarize(Block& block);

  std::vector<Block> blocks_;
};

}  // namespace trainer
