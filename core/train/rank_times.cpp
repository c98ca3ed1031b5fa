// SPDX-License-Identifier: Apache-2.0
#include "core/train/rank_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace trainer {
namespace {

/// The time without waiting for others.
double computed(const RankTimes& rank) {
  return rank.step - rank.waited;
}

bool computes_less(const RankTimes& a, const RankTimes& b) {
  return computed(a) < computed(b);
}

/// The first of those that compute longest.
int64_t slowest_of(const std::vector<RankTimes>& ranks) {
  return std::ranges::max_element(ranks, computes_less) - ranks.begin();
}

double mean_wait(const std::vector<RankTimes>& ranks) {
  double sum = 0;
  for (const RankTimes& rank : ranks) sum += rank.waited / static_cast<double>(ranks.size());
  return sum;
}

}  // namespace

std::vector<RankTimes> times_of_ranks(ProcessGroup& group, const RankTimes& own) {
  const auto count = static_cast<size_t>(group.size()), self = static_cast<size_t>(group.rank());
  if (count == 1) return {};
  constexpr size_t kNumbers = 4;
  std::vector<double> all(count * kNumbers, 0);
  std::ranges::copy(std::array{own.step, own.data_wait, own.waited, own.joules}, &all[self * kNumbers]);
  group.all_reduce(all);
  std::vector<RankTimes> ranks;
  for (size_t i = 0; i < all.size(); i += kNumbers)
    ranks.push_back({.step = all[i], .data_wait = all[i + 1], .waited = all[i + 2], .joules = all[i + 3]});
  return ranks;
}

NamedNumbers numbers_of(const std::vector<RankTimes>& ranks) {
  if (ranks.empty()) return {};
  NamedNumbers numbers = {{"world_size", static_cast<int64_t>(ranks.size())}};
  numbers.emplace_back("communication_ms", mean_wait(ranks));
  numbers.emplace_back("slowest_rank", slowest_of(ranks));
  for (size_t i = 0; i < ranks.size(); ++i) {
    numbers.emplace_back(fmt::format("rank{}_compute_ms", i), computed(ranks[i]));
    numbers.emplace_back(fmt::format("rank{}_data_wait_ms", i), ranks[i].data_wait);
  }
  return numbers;
}

void RankSums::add(const std::vector<RankTimes>& ranks, int64_t steps) {
  sums_.resize(std::max(sums_.size(), ranks.size()));
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto times = static_cast<double>(steps);
    sums_[i].step += times * ranks[i].step;
    sums_[i].data_wait += times * ranks[i].data_wait;
    sums_[i].waited += times * ranks[i].waited;
    sums_[i].joules += ranks[i].joules;
  }
}

double RankSums::waited() const {
  return sums_.empty() ? 0 : mean_wait(sums_) * 1e-3;
}

double RankSums::joules() const {
  double sum = 0;
  for (const RankTimes& rank : sums_) sum += rank.joules;
  return sum;
}

std::optional<std::pair<int64_t, double>> RankSums::slowest() const {
  if (sums_.size() < 2) return std::nullopt;
  const int64_t slowest = slowest_of(sums_);
  const double longest = computed(sums_[static_cast<size_t>(slowest)]);
  double others = -longest;
  for (const RankTimes& rank : sums_) others += computed(rank);
  if (others <= 0) return std::nullopt;
  return std::pair{slowest, longest * static_cast<double>(sums_.size() - 1) / others};
}

}  // namespace trainer
