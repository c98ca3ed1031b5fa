// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/mesh.h"
#include "core/base/rank_status.h"

namespace trainer {

class Collectives;

/// What a rank wants all ranks to do. Votes are combined field by field: what one rank wants, all do.
struct Vote {
  bool stop = false;      ///< save and end
  bool save = false;      ///< save and continue
  bool exchange = false;  ///< exchange the unreadable samples that some have found
  int fail = 0;           ///< end without saving, with this exit code: this rank cannot continue
  bool operator==(const Vote&) const = default;
};

constexpr Vote operator|(const Vote& a, const Vote& b) {
  return {.stop = a.stop || b.stop,
          .save = a.save || b.save,
          .exchange = a.exchange || b.exchange,
          .fail = a.fail > b.fail ? a.fail : b.fail};
}

/// The processes that train one network together. Rounds of votes are numbered from 0. Every rank votes once
/// in each round and asks once for its result, both in order, and has at most kMaxOpenRounds rounds open.
class ProcessGroup {
 public:
  static constexpr int64_t kMaxOpenRounds = 8;

  virtual ~ProcessGroup() = default;
  virtual int64_t rank() const = 0;
  /// The number of ranks.
  virtual int64_t size() const = 0;

  /// Divides the ranks for the collectives of steps, which come after it. Every rank calls it with the same
  /// mesh of size() ranks.
  virtual void arrange(const Mesh& mesh) { mesh_ = mesh; }
  const Mesh& mesh() const { return mesh_; }

  /// Does not wait.
  virtual void vote(int64_t round, const Vote& own) = 0;
  /// The votes of all ranks, combined. Waits for those that have not voted yet.
  virtual Vote result(int64_t round) = 0;

  // Between steps. Every rank calls the same, with as many numbers or bytes, in the same order.

  /// Adds up a few numbers over all ranks, in place. Every rank gets bitwise identical sums.
  virtual void all_reduce(std::span<double> numbers) = 0;
  /// Gives every rank the bytes of rank `root`.
  virtual void broadcast(std::span<std::byte> bytes, int64_t root = 0) = 0;

  /// For steps on CPUs. Null if the group has none: GPUs bring their own (NCCL).
  virtual Collectives* host_collectives() { return nullptr; }

  /// Waits until all ranks call it. Afterwards only status() may be called.
  virtual void shut_down() {}

  /// While this is set, steps leave out their collectives: each rank computes by itself.
  void skip_collectives(bool skip) { skips_collectives_ = skip; }
  bool skips_collectives() const { return skips_collectives_; }

  /// Sets the status that this rank's heartbeats report.
  void set_activity(int64_t step, Activity activity) {
    step_ = step;
    activity_ = activity;
    if (first_step_ == 0 && activity == Activity::awaiting_data) first_step_ = step;
    ++changes_;
  }
  /// Work that takes long and is not a step, such as timing algorithms, calls it now and then: a rank whose
  /// status never changes is taken to hang.
  void note_progress() { ++changes_; }
  /// Any thread may call it.
  RankStatus status() const { return {step_, activity_, waits_, changes_, first_step_}; }
  /// Seconds that this rank has waited for others so far. For the thread that waits.
  double seconds_waited() const { return seconds_waited_; }

 protected:
  /// While it exists, this rank waits for others.
  class Wait {
   public:
    explicit Wait(ProcessGroup& group) : group_(group) { group_.waits_ = true; }
    ~Wait() {
      group_.waits_ = false;
      ++group_.changes_;
      group_.seconds_waited_ +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    ProcessGroup& group_;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  };

 private:
  Mesh mesh_;
  bool skips_collectives_ = false;
  std::atomic<int64_t> step_ = 0, changes_ = 0, first_step_ = 0;
  std::atomic<Activity> activity_ = Activity::starting;
  std::atomic<bool> waits_ = false;
  double seconds_waited_ = 0;
};

/// A rank's position among those that share an operation; 0 if none do.
int64_t position_along(const ProcessGroup* group, const std::optional<Along>& along);

/// A group of one process: its vote is the result. Allocates nothing.
class SingleProcess final : public ProcessGroup {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  void vote(int64_t round, const Vote& own) override { place(round) = own; }
  Vote result(int64_t round) override { return place(round); }
  void all_reduce(std::span<double>) override {}
  void broadcast(std::span<std::byte>, int64_t) override {}

 private:
  Vote& place(int64_t round) { return votes_[static_cast<size_t>(round % kMaxOpenRounds)]; }

  std::array<Vote, kMaxOpenRounds> votes_;
};

}  // namespace trainer
