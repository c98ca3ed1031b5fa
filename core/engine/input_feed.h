// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "core/engine/executable.h"

namespace trainer {

/// One input of a batch and the place of its values, in memory from allocate_batch.
struct InputData {
  TensorId input = kNone;
  void* data = nullptr;
};

/// Brings batches to an executable's inputs. A synchronous device reads them in place; an asynchronous one
/// gets copies, in slots of its own, made while it works on the batches before.
class InputFeed {
 public:
  /// Throws Error (exit 71) if the device has no room for the slots.
  explicit InputFeed(Executable& executable);

  /// Call before requesting a batch: waits until the batch `kept()` before it is no longer in use, because
  /// its memory may be reused.
  void make_room();
  /// Binds the inputs to this batch. In one piece: its arrays are in one allocation, and may be copied at
  /// once.
  void give(std::span<const InputData> batch, bool in_one_piece = false);
  /// After the last run that reads the batch.
  void done();

  /// How many batches must stay unchanged after being bound, including the last one.
  static int64_t kept(const Plan& plan) { return plan.is_async ? kSlots : 1; }
  /// Device memory that a feed takes for the inputs of a plan.
  static int64_t device_bytes(const Plan& plan);

 private:
  /// One being computed, one being copied, and one so that neither waits for the host.
  static constexpr int64_t kSlots = 3;

  void add_copy(const HostCopy& copy, bool may_join);

  Executable& executable_;
  Buffer memory_;
  std::vector<int64_t> offsets_;  ///< of each tensor in a slot; inputs only
  int64_t slot_bytes_ = 0;
  int64_t given_ = 0;
  std::vector<HostCopy> copies_;
  std::vector<int64_t> done_;  ///< for each slot, the event after the last reader of its batch
};

}  // namespace trainer
