// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/data/source.h"

namespace trainer {

/// How many samples of a split may be unreadable.
struct ErrorBudget {
  double percent = 0;
  std::string split;      ///< the split's key, for the message
  std::string list_file;  ///< the file that lists them, for the message
  /// Several processes read: count() counts the findings of each, and it alone refuses, so that all decide
  /// the same.
  bool is_shared = false;
};

/// Counts a source's unreadable samples against a budget and reads others in their place. Samples known to be
/// unreadable are tried again each time, because a damaged file may be readable in some views. Only then is
/// each sample a function of (seed, epoch, index), whatever was read before.
class BudgetedReads {
 public:
  BudgetedReads(ErrorBudget budget, int64_t size) : budget_(std::move(budget)), size_(size) {}

  /// Calls read(sample) for `index` and those after it, the first coming after the last, until one can be
  /// read. Throws Error (exit 65) if none can, and once more than the budget were found.
  template <class Read>
  void first_readable(int64_t index, const Read& read) {
    for (int64_t i = 0; i < size_; ++i) {
      const int64_t sample = (index + i) % size_;
      try {
        read(sample);
        return;
      } catch (const UnreadableSampleError& error) {
        note(sample, error.sample());
      }
    }
    fail_all();
  }

  /// Those found since the last call.
  std::vector<UnreadableSample> take();
  /// The numbers of all that count, ascending.
  std::vector<int64_t> known() const;
  /// Counts samples that an earlier process, or another one of this run, has found. Throws Error (exit 65)
  /// if they are too many.
  void count(const std::vector<int64_t>& samples);

 private:
  void note(int64_t sample, const UnreadableSample& found);
  void require_within_budget() const;
  [[noreturn]] void fail_all() const;
  std::string list() const;

  ErrorBudget budget_;
  int64_t size_;
  mutable std::mutex mutex_;           // guards the members below
  std::unordered_set<int64_t> known_;  // by earlier processes too
  std::unordered_set<int64_t> found_;  // by this one
  std::vector<UnreadableSample> fresh_;
};

}  // namespace trainer
