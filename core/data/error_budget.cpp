// SPDX-License-Identifier: Apache-2.0
#include "core/data/error_budget.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trainer {

std::vector<UnreadableSample> BudgetedReads::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fresh_, {});
}

void BudgetedReads::note(int64_t sample, const UnreadableSample& found) {
  const std::lock_guard lock(mutex_);
  if (found_.insert(sample).second) fresh_.push_back(found);
  known_.insert(sample);
  if (!budget_.is_shared) require_within_budget();
}

std::vector<int64_t> BudgetedReads::known() const {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> samples(known_.begin(), known_.end());
  std::ranges::sort(samples);
  return samples;
}

void BudgetedReads::count(const std::vector<int64_t>& samples) {
  const std::lock_guard lock(mutex_);
  for (const int64_t sample : samples) {
    if (sample < size_) known_.insert(sample);
  }
  require_within_budget();
}

void BudgetedReads::require_within_budget() const {
  if (static_cast<double>(known_.size()) * 100 <= budget_.percent * static_cast<double>(size_)) return;
  throw Error(ExitCode::data,
              fmt::format("{}: {} of {} samples cannot be read, more than data.error_budget, {} %{}",
                          budget_.split, known_.size(), size_, budget_.percent, list()));
}

void BudgetedReads::fail_all() const {
  throw Error(ExitCode::data,
              fmt::format("{}: none of {} samples can be read{}", budget_.split, size_, list()));
}

std::string BudgetedReads::list() const {
  return budget_.list_file.empty() ? "" : "; they are listed in " + budget_.list_file;
}

}  // namespace trainer
