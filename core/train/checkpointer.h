// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/train/loop_state.h"

namespace trainer {

/// Saves a run and restores it to a saved state. The tensors are those of the executable that it was made
/// for.
class Checkpointer {
 public:
  virtual ~Checkpointer() = default;

  /// Whether every rank saves after this step.
  virtual bool is_due(int64_t step) const = 0;
  /// Whether it is time to save by this process's clock.
  virtual bool is_overdue() const = 0;
  /// Whether to save for an evaluation that has just been done.
  virtual bool is_best(const LoopState& state) const = 0;

  /// Copies the state and starts to write it in the background.
  virtual void save(const LoopState& state) = 0;
  /// Logs the result of the last save. Throws Error (exit 74) after three failures in a row.
  virtual void report() = 0;
  /// Saves unless that state is saved already, and waits for it. Throws Error (exit 74) if it cannot.
  virtual void save_now(const LoopState& state) = 0;
  /// Waits until nothing is being written.
  virtual void wait() {}

  /// Gives the tensors the values of the newest intact checkpoint and returns its state; nothing if there
  /// is none. Later states are saved again.
  virtual std::optional<LoopState> restore() = 0;
};

}  // namespace trainer
