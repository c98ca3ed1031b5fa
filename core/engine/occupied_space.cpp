// SPDX-License-Identifier: Apache-2.0
#include "core/engine/occupied_space.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "core/engine/arena.h"

namespace trainer {
namespace {

constexpr size_t kMostParts = 48;  // of a block, and of a group

/// The last block that begins at or before `begin`, or the first.
template <class Wholes, class Begin>
auto last_before(Wholes& all, int64_t begin, const Begin& begin_of) {
  const auto after = std::ranges::upper_bound(all, begin, {}, begin_of);
  return after == all.begin() ? after : after - 1;
}

}  // namespace

/// Visits the ranges taken at the steps from `first` to `last`, from the lowest begin on.
class OccupiedSpace::Search {
 public:
  Search(int64_t first, int64_t last, int64_t bytes, int64_t alignment)
      : first_(first), last_(last), bytes_(bytes), alignment_(alignment) {}

  void look_at(const TakenBytes& taken) {
    if (taken.first <= last_ && taken.last >= first_) pass(taken.begin, taken.end);
  }
  template <class Whole>
  void look_at(const Whole& whole) {
    const Summary& all = whole.summary;
    if (all.least_first > last_ || all.most_last < first_) return;
    const bool are_all_taken = all.most_first <= last_ && all.least_last >= first_;
    if (are_all_taken && all.largest_gap < bytes_) return pass(all.begin, all.end);
    for (const auto& part : whole.parts) look_at(part);
  }
  int64_t found() const { return best_ < 0 ? start_ : best_; }

 private:
  void pass(int64_t begin, int64_t end) {
    const int64_t gap = begin - start_;
    if (gap >= bytes_ && gap < best_size_) best_ = start_, best_size_ = gap;
    // The usual alignment without a division, which would take longer than all else.
    if (end > start_)
      start_ = alignment_ == kArenaAlignment ? (end + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment
                                             : align_up(end, alignment_);
  }

  int64_t first_, last_, bytes_, alignment_, start_ = 0;
  int64_t best_ = -1, best_size_ = std::numeric_limits<int64_t>::max();
};

OccupiedSpace::Summary OccupiedSpace::summary_of(const TakenBytes& taken) {
  return {.least_first = taken.first,
          .most_first = taken.first,
          .least_last = taken.last,
          .most_last = taken.last,
          .begin = taken.begin,
          .end = taken.end,
          .largest_gap = 0};
}

template <class Whole>
void OccupiedSpace::summarize(Whole& whole) {
  Summary all = summary_of(whole.parts.front());
  for (const auto& part : whole.parts) {
    const Summary next = summary_of(part);
    all.least_first = std::min(all.least_first, next.least_first);
    all.most_first = std::max(all.most_first, next.most_first);
    all.least_last = std::min(all.least_last, next.least_last);
    all.most_last = std::max(all.most_last, next.most_last);
    all.largest_gap = std::max({all.largest_gap, next.largest_gap, next.begin - all.end});
    all.end = std::max(all.end, next.end);
  }
  whole.summary = all;
}

template <class Whole>
void OccupiedSpace::split_if_full(std::vector<Whole>& all, typename std::vector<Whole>::iterator whole) {
  if (whole->parts.size() > kMostParts) {
    const auto half = whole->parts.begin() + kMostParts / 2;
    Whole upper{.parts = {std::make_move_iterator(half), std::make_move_iterator(whole->parts.end())},
                .summary = {}};
    whole->parts.erase(half, whole->parts.end());
    summarize(upper);
    whole = all.insert(whole + 1, std::move(upper)) - 1;
  }
  summarize(*whole);
}

void OccupiedSpace::take(const TakenBytes& taken) {
  const auto begin_of = [](const auto& whole) { return whole.summary.begin; };
  if (groups_.empty()) {
    groups_.push_back(
        {.parts = {{.parts = {taken}, .summary = summary_of(taken)}}, .summary = summary_of(taken)});
    return;
  }
  const auto group = last_before(groups_, taken.begin, begin_of);
  const auto block = last_before(group->parts, taken.begin, begin_of);
  block->parts.insert(std::ranges::upper_bound(block->parts, taken.begin, {}, &TakenBytes::begin), taken);
  split_if_full(group->parts, block);
  split_if_full(groups_, group);
}

int64_t OccupiedSpace::best_gap(int64_t first, int64_t last, int64_t bytes, int64_t alignment) const {
  Search search(first, last, bytes, alignment);
  for (const Group& group : groups_) search.look_at(group);
  return search.found();
}

}  // namespace trainer
