// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace trainer {

/// Bytes [begin, end) at the steps from `first` to `last`, both included.
struct TakenBytes {
  int64_t first, last, begin, end;
};

/// The bytes taken at each step. Ranges are in the order of their begins, in blocks and in groups of blocks.
/// A block or group is skipped as a whole if it is free at the steps in question, or taken without a large
/// enough gap. In a deep network most are: they hold the same tensor of consecutive layers.
class OccupiedSpace {
 public:
  void take(const TakenBytes& taken);
  /// The start, a multiple of `alignment`, of the smallest gap that holds `bytes` and is free at all steps
  /// from `first` to `last`; otherwise the end of all ranges.
  int64_t best_gap(int64_t first, int64_t last, int64_t bytes, int64_t alignment) const;

 private:
  /// Several taken ranges: bounds of their steps and bytes, and the largest gap between them if all are taken
  /// at the same time.
  struct Summary {
    int64_t least_first, most_first, least_last, most_last, begin, end, largest_gap;
  };
  struct Block {
    std::vector<TakenBytes> parts;
    Summary summary;
  };
  struct Group {
    std::vector<Block> parts;
    Summary summary;
  };
  class Search;
  static Summary summary_of(const TakenBytes& taken);
  template <class Whole>
  static Summary summary_of(const Whole& whole) {
    return whole.summary;
  }
  template <class Whole>
  static void summarize(Whole& whole);
  template <class Whole>
  static void split_if_full(std::vector<Whole>& all, typename std::vector<Whole>::iterator whole);

  std::vector<Group> groups_;
};

}  // namespace trainer
