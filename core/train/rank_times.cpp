// SPDX-License-Identifier: Apache-2.0
#include "core/train/rank_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace trainer {

NamedNumbers numbers_of_ranks(ProcessGroup& group, const RankTimes& own) {
  const auto count = static_cast<size_t>(group.size()), self = static_cast<size_t>(group.rank());
  if (count == 1) return {};
  constexpr size_t kNumbers = 3;
  std::vector<double> all(count * kNumbers, 0);
  std::ranges::copy(std::array{own.step, own.data_wait, own.waited}, &all[self * kNumbers]);
  group.all_reduce(all);
  NamedNumbers numbers = {{"world_size", static_cast<int64_t>(count)}};
  double waited = 0, longest = -1;
  size_t slowest = 0;
  for (size_t rank = 0; rank < count; ++rank) {
    const double* of = &all[rank * kNumbers];
    waited += of[2] / static_cast<double>(count);
    if (of[0] - of[2] <= longest) continue;
    longest = of[0] - of[2];
    slowest = rank;
  }
  numbers.emplace_back("communication_ms", waited);
  numbers.emplace_back("slowest_rank", static_cast<int64_t>(slowest));
  for (size_t rank = 0; rank < count; ++rank) {
    const double* of = &all[rank * kNumbers];
    numbers.emplace_back(fmt::format("rank{}_compute_ms", rank), of[0] - of[2]);
    numbers.emplace_back(fmt::format("rank{}_data_wait_ms", rank), of[1]);
  }
  return numbers;
}

}  // namespace trainer
