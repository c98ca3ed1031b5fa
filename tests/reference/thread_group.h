// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/engine/collectives.h"
#include "core/engine/process_group.h"

namespace trainer::test {

/// A group whose ranks are threads of this process. Adds up in the order of the ranks, once all have started,
/// so that every rank gets bitwise identical results.
class ThreadGroup {
 public:
  explicit ThreadGroup(size_t ranks) : votes_(ranks) {}

  size_t size() const { return votes_.size(); }
  int64_t rounds(size_t rank) const { return static_cast<int64_t>(votes_[rank].size()); }

  void vote(size_t rank, int64_t round, const Vote& own);
  Vote result(int64_t round);

  /// Ranks that take part in a sum, in their order.
  using Members = std::vector<size_t>;
  Members all() const;

  /// Puts a rank's numbers down; returns the number of this sum, counted by the rank for these members.
  int64_t put(size_t rank, const Members& members, std::vector<double> numbers);
  /// Sends a message from one rank to another.
  void send(size_t from, size_t to, int64_t number, std::vector<std::byte> bytes);
  /// Waits for the next message of that number.
  std::vector<std::byte> receive(size_t from, size_t to, int64_t number);

  /// Waits for all ranks' numbers of that sum, and gives each one's.
  std::vector<std::vector<double>> get(const Members& members, int64_t sum);

 private:
  std::vector<std::vector<Vote>> votes_;                 ///< of each rank
  std::map<std::pair<size_t, Members>, int64_t> begun_;  ///< sums, by rank and members
  std::map<std::pair<Members, int64_t>, std::map<size_t, std::vector<double>>> numbers_;  ///< of each sum
  std::map<std::tuple<size_t, size_t, int64_t>, std::deque<std::vector<std::byte>>> messages_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// One of them. The numbers of a collective are NaN until it was waited for, which exposes early reads.
class ThreadProcessGroup final : public ProcessGroup, public Collectives {
 public:
  ThreadProcessGroup(ThreadGroup& group, size_t rank) : group_(group), rank_(rank) {
    arrange({.replicas = 1, .shards = static_cast<int64_t>(group.size())});
  }
  int64_t rank() const override { return static_cast<int64_t>(rank_); }
  int64_t size() const override { return static_cast<int64_t>(group_.size()); }
  Collectives* host_collectives() override { return this; }
  void vote(int64_t round, const Vote& own) override { group_.vote(rank_, round, own); }
  Vote result(int64_t round) override { return group_.result(round); }
  void start_all_reduce(int64_t number, Axis axis, std::span<const std::span<float>> numbers) override;
  void start_broadcast(int64_t number, int64_t root, std::span<const std::span<float>> numbers) override;
  void start_all_gather(int64_t number, Axis axis, std::span<const Gathered> tensors) override;
  void start_reduce_scatter(int64_t number, Axis axis, std::span<const Scattered> tensors) override;
  void start_exchange(int64_t number, std::span<const Sent> sent,
                      std::span<const Received> received) override;
  void wait(int64_t number) override;
  void all_reduce(std::span<double> numbers) override;
  void broadcast(std::span<std::byte> bytes, int64_t root) override;
  /// Bytes of all that was started along each axis, as traffic_of_step counts them.
  const std::map<Axis, int64_t>& traffic() const { return traffic_; }

 private:
  using Numbers = std::vector<std::vector<double>>;  ///< of each rank that takes part, in their order
  struct Begun {
    ThreadGroup::Members members;
    int64_t sum;  ///< of these
    std::function<void(const Numbers&)> finish;
  };
  void start(int64_t number, Axis axis, std::vector<double> numbers,
             std::function<void(const Numbers&)> finish);

  ThreadGroup& group_;
  size_t rank_;
  template <class Tensors, class Bytes>
  void count(Axis axis, const Tensors& tensors, const Bytes& bytes_of) {
    for (const auto& tensor : tensors) traffic_[axis] += static_cast<int64_t>(bytes_of(tensor));
  }

  std::map<Axis, int64_t> traffic_;
  std::map<int64_t, Begun> begun_;                     ///< by number
  std::map<int64_t, std::vector<Received>> expected_;  ///< by number of an exchange
};

}  // namespace trainer::test
