// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "core/engine/communicator.h"

namespace trainer::test {

/// State shared by ranks that are threads of this process. Numbers are added in the order of the ranks, once
/// all have begun, so that every rank gets bitwise identical results.
class RankTable {
 public:
  explicit RankTable(size_t ranks) : votes_(ranks), begun_(ranks, 0) {}

  size_t ranks() const { return votes_.size(); }
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

/// One of them. Until a sum or a broadcast is finished its numbers are NaN, so that early reads are detected.
class ThreadRank final : public Communicator {
 public:
  ThreadRank(RankTable& table, size_t rank) : table_(table), rank_(rank) {}
  int64_t rank() const override { return static_cast<int64_t>(rank_); }
  int64_t ranks() const override { return static_cast<int64_t>(table_.ranks()); }
  void vote(int64_t round, const Vote& own) override { table_.vote(rank_, round, own); }
  Vote result(int64_t round) override { return table_.result(round); }
  void start_sum(int64_t sum, std::span<const std::span<float>> numbers) override;
  void finish_sum(int64_t sum) override;
  void start_broadcast(int64_t from, std::span<const std::span<float>> numbers) override;
  void finish_broadcast(int64_t from) override;
  void add_up(std::span<double> numbers) override;
  void broadcast(std::span<std::byte> bytes, int64_t from) override;

 private:
  struct Begun {
    int64_t number;
    std::vector<std::span<float>> memory;
  };
  RankTable& table_;
  size_t rank_;
  using Open = std::map<int64_t, Begun>;
  void start(Open& open, int64_t name, std::span<const std::span<float>> numbers);
  template <class Combine>
  void finish(Open& open, int64_t name, const Combine& combine);

  Open sums_, broadcasts_;
};

}  // namespace trainer::test
