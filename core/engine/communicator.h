// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainer {

/// What a rank wants all ranks to do. Ranks are combined field by field: what one wants, all do.
struct Vote {
  bool stop = false;  ///< save and end
  bool save = false;  ///< save and continue
  int fail = 0;       ///< end without saving, with this exit code: this rank cannot continue
  bool operator==(const Vote&) const = default;
};

constexpr Vote operator|(const Vote& a, const Vote& b) {
  return {.stop = a.stop || b.stop, .save = a.save || b.save, .fail = a.fail > b.fail ? a.fail : b.fail};
}

/// The processes that train one network together. Rounds are numbered from 0; every rank votes once in each
/// and asks once for its result, both in order, at most kMostOpenRounds behind its votes.
class Communicator {
 public:
  static constexpr int64_t kMostOpenRounds = 8;

  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;

  /// Does not wait.
  virtual void vote(int64_t round, const Vote& own) = 0;
  /// The votes of all ranks, combined. Waits for those that have not voted yet.
  virtual Vote result(int64_t round) = 0;

  // Every rank begins the same sums, of as many numbers, in the same order, and gets the same bits.

  /// Begins to add up numbers in host memory over all ranks, in place. They must stay until the sum is
  /// finished, and nobody looks at them before.
  virtual void start_sum(int64_t sum, std::span<const std::span<float>> numbers) = 0;
  /// Waits for the sum of that name, which can be begun again then.
  virtual void finish_sum(int64_t sum) = 0;
  /// The same at once, for a few numbers.
  virtual void add_up(std::span<double> numbers) = 0;
  /// Gives every rank the bytes of rank `from`.
  virtual void broadcast(std::span<std::byte> bytes, int64_t from = 0) = 0;

  /// While they are muted, the sums of a step are left out: each rank computes by itself.
  void mute(bool muted) { is_muted_ = muted; }
  bool is_muted() const { return is_muted_; }

 private:
  bool is_muted_ = false;
};

/// One rank alone: its vote is the result. Allocates nothing.
class OneRank final : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t ranks() const override { return 1; }
  void vote(int64_t round, const Vote& own) override { place(round) = own; }
  Vote result(int64_t round) override { return place(round); }
  void start_sum(int64_t, std::span<const std::span<float>>) override {}
  void finish_sum(int64_t) override {}
  void add_up(std::span<double>) override {}
  void broadcast(std::span<std::byte>, int64_t) override {}

 private:
  Vote& place(int64_t round) { return votes_[static_cast<size_t>(round % kMostOpenRounds)]; }

  std::array<Vote, kMostOpenRounds> votes_;
};

}  // namespace trainer
