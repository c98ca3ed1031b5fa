// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <utility>

#include "core/engine/communicator.h"

namespace trainer {

/// The only way in which something that one process alone knows (a signal, its clock, its disk, its data) may
/// change what is enqueued. Each piece of work that all ranks enqueue is a round: a rank votes with it, and
/// asks for the result if it takes the work's outputs. Who asks at fixed places, never when outputs happen
/// to be ready, decides the same on every rank. Outputs are the same on all ranks and need no vote.
class Agreement {
 public:
  /// The present wish of this rank; `fail` is not asked for.
  using Wish = std::function<Vote()>;
  explicit Agreement(
      Communicator& communicator, Wish wish = [] { return Vote{}; })
      : communicator_(communicator), wish_(std::move(wish)) {}

  Communicator& ranks() const { return communicator_; }

  /// Whether this rank stops now, without enqueueing anything more. True only for a rank that is alone: the
  /// wish of others to stop travels with their next vote.
  bool leaves_now() const { return is_alone() && wish_().stop; }

  /// This rank's vote, with a piece of work that it enqueues.
  void vote();
  /// The result of the oldest round not asked for yet. If a rank has failed, throws its error there, and
  /// on the others PeerError with its exit code.
  Vote result();

  /// This rank cannot continue. A rank that is alone throws the error at once. Among others it goes on
  /// enqueueing until result() throws, so that nobody waits for it.
  void fail(const std::exception_ptr& error);

 private:
  bool is_alone() const { return communicator_.ranks() == 1; }

  Communicator& communicator_;
  Wish wish_;
  std::exception_ptr error_;
  int code_ = 0;                      ///< its exit code
  int64_t voted_ = 0, answered_ = 0;  ///< rounds
};

}  // namespace trainer
