// SPDX-License-Identifier: Apache-2.0
#include "core/engine/input_feed.h"

#include "core/engine/arena.h"

namespace trainer {
namespace {

/// Calls visit(tensor, bytes) for each input of the plan.
template <class Visit>
void for_each_input(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].role == Role::input) visit(i, plan.placements[i].bytes);
  }
}

int64_t slot_bytes(const Plan& plan) {
  int64_t sum = 0;
  for_each_input(plan, [&](size_t, int64_t bytes) { sum += align_up(bytes); });
  return sum;
}

}  // namespace

int64_t InputFeed::device_bytes(const Plan& plan) {
  return plan.is_async ? kSlots * slot_bytes(plan) : 0;
}

InputFeed::InputFeed(Executable& executable) : executable_(executable) {
  const Plan& plan = executable.plan();
  if (!plan.is_async) return;
  offsets_.resize(plan.tensors.size());
  for_each_input(plan, [&](size_t i, int64_t bytes) {
    offsets_[i] = slot_bytes_;
    slot_bytes_ += align_up(bytes);
  });
  memory_ = executable.device().allocate(device_bytes(plan));
  done_.assign(kSlots, executable.device().record_event());  // not before the memory is cleared
}

void InputFeed::make_room() {
  if (!done_.empty()) executable_.device().synchronize(done_[static_cast<size_t>(given_ % kSlots)]);
}

void InputFeed::give(std::span<const InputData> batch, bool in_one_piece) {
  if (done_.empty()) {
    for (const InputData& input : batch) executable_.bind(input.input, input.data);
    return;
  }
  const int64_t slot = given_ % kSlots;
  copies_.clear();
  for (const InputData& input : batch) {
    const auto i = static_cast<size_t>(input.input);
    std::byte* place = memory_.data() + slot * slot_bytes_ + offsets_[i];
    add_copy({place, input.data, executable_.plan().placements[i].bytes}, in_one_piece);
    executable_.bind(input.input, place);
  }
  executable_.device().copy_to_device_async(copies_, done_[static_cast<size_t>(slot)]);
}

/// The arrays of a batch in one piece are as far apart as those of a slot, if it has the same arrays.
void InputFeed::add_copy(const HostCopy& copy, bool may_join) {
  if (may_join && !copies_.empty()) {
    HostCopy& last = copies_.back();
    const auto away = [](const void* from, const void* to) {
      return static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from);
    };
    const int64_t distance = away(last.host, copy.host);
    if (distance == align_up(last.bytes) && distance == away(last.device, copy.device)) {
      last.bytes = distance + copy.bytes;
      return;
    }
  }
  copies_.push_back(copy);
}

void InputFeed::done() {
  if (done_.empty()) return;
  done_[static_cast<size_t>(given_++ % kSlots)] = executable_.device().record_event();
}

}  // namespace trainer
