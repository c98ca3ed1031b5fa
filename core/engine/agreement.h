// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <utility>

#include "core/engine/process_group.h"

namespace trainer {

/// The only way in which knowledge of one process (a signal, its clock, its disk, its data) may change what
/// all enqueue. Each piece of work that all ranks enqueue is a round: a rank votes when it enqueues it, and
/// reads the result when it takes the outputs. It does so at fixed places, never when outputs happen to be
/// ready, so every rank decides the same. Outputs are the same on all ranks and need no vote.
class Agreement {
 public:
  /// The current wish of this rank; `fail` is ignored.
  using Wish = std::function<Vote()>;
  explicit Agreement(
      ProcessGroup& group, Wish wish = [] { return Vote{}; })
      : group_(group), wish_(std::move(wish)) {}

  ProcessGroup& group() const { return group_; }

  /// Whether this rank stops now, without enqueueing anything more. True only for a rank that is alone:
  /// others wish to stop with their next vote.
  bool leaves_now() const { return is_alone() && wish_().stop; }

  /// Votes for a piece of work that this rank enqueues.
  void vote();
  /// The result of the oldest round that was not read yet. If a rank has failed, throws its error on that
  /// rank, and PeerError with its exit code on the others.
  Vote result();

  /// This rank cannot continue. A rank that is alone throws the error at once. One with peers goes on
  /// enqueueing until result() throws, so that no rank waits for it.
  void fail(const std::exception_ptr& error);

 private:
  bool is_alone() const { return group_.size() == 1; }

  ProcessGroup& group_;
  Wish wish_;
  std::exception_ptr error_;
  int code_ = 0;                      ///< its exit code
  int64_t voted_ = 0, answered_ = 0;  ///< rounds
};

}  // namespace trainer
