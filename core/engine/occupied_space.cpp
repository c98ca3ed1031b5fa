// SPDX-License-Identifier: Apache-2.0
#include "core/engine/occupied_space.h"

#include <algorithm>
#include <limits>

#include "core/engine/arena.h"

namespace trainer {
namespace {

constexpr size_t kMostInBlock = 64;

}  // namespace

/// Goes over what is taken, from the lowest begin on.
class OccupiedSpace::Search {
 public:
  Search(int64_t bytes, int64_t alignment) : bytes_(bytes), alignment_(alignment) {}

  void pass(int64_t begin, int64_t end) {
    const int64_t gap = begin - start_;
    if (gap >= bytes_ && gap < best_size_) best_ = start_, best_size_ = gap;
    if (end > start_) start_ = align_up(end, alignment_);
  }
  bool fits(int64_t gap) const { return gap >= bytes_; }
  int64_t found() const { return best_ < 0 ? start_ : best_; }

 private:
  int64_t bytes_, alignment_, start_ = 0;
  int64_t best_ = -1, best_size_ = std::numeric_limits<int64_t>::max();
};

void OccupiedSpace::summarize(Block& block) {
  const TakenBytes& front = block.taken.front();
  block.least_first = block.most_first = front.first;
  block.least_last = block.most_last = front.last;
  block.end = front.end;
  block.largest_gap = 0;
  for (const TakenBytes& each : block.taken) {
    block.least_first = std::min(block.least_first, each.first);
    block.most_first = std::max(block.most_first, each.first);
    block.least_last = std::min(block.least_last, each.last);
    block.most_last = std::max(block.most_last, each.last);
    block.largest_gap = std::max(block.largest_gap, each.begin - block.end);
    block.end = std::max(block.end, each.end);
  }
}

void OccupiedSpace::take(const TakenBytes& taken) {
  if (blocks_.empty()) blocks_.emplace_back();
  auto block = std::ranges::upper_bound(blocks_, taken.begin, {}, [](const Block& each) {
    return each.taken.empty() ? std::numeric_limits<int64_t>::min() : each.taken.front().begin;
  });
  if (block != blocks_.begin()) --block;
  std::vector<TakenBytes>& all = block->taken;
  all.insert(std::ranges::upper_bound(all, taken.begin, {}, &TakenBytes::begin), taken);
  if (all.size() > kMostInBlock) {
    Block upper;
    const auto half = all.begin() + kMostInBlock / 2;
    upper.taken.assign(half, all.end());
    all.erase(half, all.end());
    summarize(upper);
    block = blocks_.insert(block + 1, std::move(upper)) - 1;
  }
  summarize(*block);
}

int64_t OccupiedSpace::best_gap(int64_t first, int64_t last, int64_t bytes, int64_t alignment) const {
  Search search(bytes, alignment);
  for (const Block& block : blocks_) {
    if (block.least_first > last || block.most_last < first) continue;
    const bool is_all = block.most_first <= last && block.least_last >= first;
    if (is_all && !search.fits(block.largest_gap)) {
      search.pass(block.taken.front().begin, block.end);
      continue;
    }
    for (const TakenBytes& other : block.taken) {
      if (other.first <= last && other.last >= first) search.pass(other.begin, other.end);
    }
  }
  return search.found();
}

}  // namespace trainer
