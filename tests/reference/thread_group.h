// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "core/engine/collectives.h"
#include "core/engine/process_group.h"

namespace trainer::test {

/// A group whose ranks are threads of this process. Adds up in the order of the ranks, once all have started,
/// so that every rank gets bitwise identical results.
class ThreadGroup {
 public:
  explicit ThreadGroup(size_t ranks) : votes_(ranks), begun_(ranks, 0) {}

  size_t size() const { return votes_.size(); }
  int64_t rounds(size_t rank) const { return static_cast<int64_t>(votes_[rank].size()); }

  void vote(size_t rank, int64_t round, const Vote& own);
  Vote result(int64_t round);

  /// Puts a rank's numbers down; returns the number of this sum, counted by the rank.
  int64_t put(size_t rank, std::vector<double> numbers);
  /// Waits for all ranks' numbers of that sum, and gives each one's.
  std::vector<std::vector<double>> get(int64_t sum);

 private:
  std::vector<std::vector<Vote>> votes_;                         ///< of each rank
  std::vector<int64_t> begun_;                                   ///< sums, by rank
  std::map<int64_t, std::vector<std::vector<double>>> numbers_;  ///< of each sum, by rank
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// One of them. The numbers of a collective are NaN until it was waited for, which exposes early reads.
class ThreadProcessGroup final : public ProcessGroup, public Collectives {
 public:
  ThreadProcessGroup(ThreadGroup& group, size_t rank) : group_(group), rank_(rank) {}
  int64_t rank() const override { return static_cast<int64_t>(rank_); }
  int64_t size() const override { return static_cast<int64_t>(group_.size()); }
  Collectives* host_collectives() override { return this; }
  void vote(int64_t round, const Vote& own) override { group_.vote(rank_, round, own); }
  Vote result(int64_t round) override { return group_.result(round); }
  void start_all_reduce(int64_t bucket, std::span<const std::span<float>> numbers) override;
  void wait_all_reduce(int64_t bucket) override;
  void start_broadcast(int64_t root, std::span<const std::span<float>> numbers) override;
  void wait_broadcast(int64_t root) override;
  void start_all_gather(std::span<const std::byte> own, std::span<std::byte> whole) override;
  void wait_all_gather() override;
  void start_reduce_scatter(std::span<const float> whole, std::span<float> own) override;
  void wait_reduce_scatter() override;
  void all_reduce(std::span<double> numbers) override;
  void broadcast(std::span<std::byte> bytes, int64_t root) override;

 private:
  struct Begun {
    int64_t number;
    std::vector<std::span<float>> memory;
  };
  ThreadGroup& group_;
  size_t rank_;
  using Open = std::map<int64_t, Begun>;
  void start(Open& open, int64_t name, std::span<const std::span<float>> numbers);
  template <class Combine>
  void finish(Open& open, int64_t name, const Combine& combine);

  Open reduced_, broadcast_;
  struct Parts {
    int64_t number = 0;
    std::span<std::byte> whole;
    std::span<float> own;
  };
  Parts gathered_, scattered_;
};

}  // namespace trainer::test
