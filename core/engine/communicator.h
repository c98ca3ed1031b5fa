// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/whereabouts.h"

namespace trainer {

/// What a rank wants all ranks to do. Ranks are combined field by field: what one wants, all do.
struct Vote {
  bool stop = false;  ///< save and end
  bool save = false;  ///< save and continue
  bool tell = false;  ///< share what some have found in their samples
  int fail = 0;       ///< end without saving, with this exit code: this rank cannot continue
  bool operator==(const Vote&) const = default;
};

constexpr Vote operator|(const Vote& a, const Vote& b) {
  return {.stop = a.stop || b.stop,
          .save = a.save || b.save,
          .tell = a.tell || b.tell,
          .fail = a.fail > b.fail ? a.fail : b.fail};
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

  // Every rank begins the same sums and broadcasts, of as many numbers, in the same order, and gets the same
  // bits.

  /// Begins to add up numbers in host memory over all ranks, in place. They must stay until the sum is
  /// finished, and nobody looks at them before.
  virtual void start_sum(int64_t sum, std::span<const std::span<float>> numbers) = 0;
  /// Waits for the sum of that name, which can be begun again then.
  virtual void finish_sum(int64_t sum) = 0;
  /// Begins to give every rank the numbers of rank `from`, in place, under the same rules as a sum; one at a
  /// time of each rank.
  virtual void start_broadcast(int64_t from, std::span<const std::span<float>> numbers) = 0;
  /// Waits for what that rank sends.
  virtual void finish_broadcast(int64_t from) = 0;
  /// A sum at once, for a few numbers.
  virtual void add_up(std::span<double> numbers) = 0;
  /// Gives every rank the bytes of rank `from`.
  virtual void broadcast(std::span<std::byte> bytes, int64_t from = 0) = 0;

  /// Waits until all ranks call it. Afterwards nothing else may be called but whereabouts().
  virtual void end() {}

  /// While they are muted, the sums of a step are left out: each rank computes by itself.
  void mute(bool muted) { is_muted_ = muted; }
  bool is_muted() const { return is_muted_; }

  /// Where this rank is now, for the messages of others; any thread may ask.
  void at(int64_t step, Doing doing) {
    step_ = step;
    doing_ = doing;
    if (first_step_ == 0 && doing == Doing::awaiting_data) first_step_ = step;
    ++moves_;
  }
  Whereabouts whereabouts() const { return {step_, doing_, waits_, moves_, first_step_}; }
  /// Seconds that this rank has waited for others so far. For the thread that waits.
  double waited() const { return waited_; }

 protected:
  /// While it exists, this rank waits for others.
  class Wait {
   public:
    explicit Wait(Communicator& ranks) : ranks_(ranks) { ranks_.waits_ = true; }
    ~Wait() {
      ranks_.waits_ = false;
      ++ranks_.moves_;
      ranks_.waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Communicator& ranks_;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  };

 private:
  bool is_muted_ = false;
  std::atomic<int64_t> step_ = 0, moves_ = 0, first_step_ = 0;
  std::atomic<Doing> doing_ = Doing::starting;
  std::atomic<bool> waits_ = false;
  double waited_ = 0;
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
  void start_broadcast(int64_t, std::span<const std::span<float>>) override {}
  void finish_broadcast(int64_t) override {}
  void add_up(std::span<double>) override {}
  void broadcast(std::span<std::byte>, int64_t) override {}

 private:
  Vote& place(int64_t round) { return votes_[static_cast<size_t>(round % kMostOpenRounds)]; }

  std::array<Vote, kMostOpenRounds> votes_;
};

}  // namespace trainer
