// SPDX-License-Identifier: Apache-2.0
#include "core/engine/start_collective.h"

#include <stdexcept>

#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/exchange.h"

namespace trainer {
namespace {

/// Memory of a slot.
template <class T>
std::span<T> memory(void* const* slot, int64_t bytes) {
  return {static_cast<T*>(*slot), static_cast<size_t>(bytes) / sizeof(T)};
}

std::vector<int64_t> row_major_bytes(std::span<const TensorSpec> specs) {
  std::vector<int64_t> bytes;
  for (const TensorSpec& spec : specs) bytes.push_back(numel(spec.shape) * bytes_per_element(spec.dtype));
  return bytes;
}

/// start(collectives, numbers) over the outputs, unless it is skipped.
template <class Start>
StartCollective over_outputs(const std::vector<int64_t>& bytes, const Slots& slots, Axis axis,
                             const Start& start) {
  return [=, numbers = std::vector<std::span<float>>(bytes.size())](Collectives& all, bool skips) mutable {
    if (skips && axis != Axis::tensor && axis != Axis::pipeline) return;
    for (size_t i = 0; i < bytes.size(); ++i) numbers[i] = memory<float>(slots.outputs[i], bytes[i]);
    start(all, numbers);
  };
}

StartCollective gather(const AllGatherStart& op, const OpContext& context, const Slots& slots) {
  return [number = op.number, axis = op.axis, slots, parts = row_major_bytes(context.inputs),
          wholes = row_major_bytes(context.outputs),
          tensors = std::vector<Gathered>(context.inputs.size())](Collectives& all, bool) mutable {
    for (size_t i = 0; i < tensors.size(); ++i)
      tensors[i] = {.own = memory<const std::byte>(slots.inputs[i], parts[i]),
                    .whole = memory<std::byte>(slots.outputs[i], wholes[i])};
    all.start_all_gather(number, axis, tensors);
  };
}

StartCollective scatter(const ReduceScatterStart& op, const OpContext& context, const Slots& slots) {
  return [number = op.number, axis = op.axis, slots, wholes = row_major_bytes(context.inputs),
          parts = row_major_bytes(context.outputs),
          tensors = std::vector<Scattered>(context.inputs.size())](Collectives& all, bool) mutable {
    for (size_t i = 0; i < tensors.size(); ++i)
      tensors[i] = {.own = memory<float>(slots.outputs[i], parts[i]),
                    .whole = memory<const float>(slots.inputs[i], wholes[i])};
    all.start_reduce_scatter(number, axis, tensors);
  };
}

StartCollective exchange(const ExchangeStart& op, const OpContext& context, const Slots& slots) {
  std::vector<Sent> sent;
  std::vector<Received> received;
  for (const Peer& peer : op.to) sent.push_back({.peer = peer.position, .number = peer.number, .bytes = {}});
  for (const ExchangeStart::Received& each : op.from)
    received.push_back({.peer = each.from.position, .number = each.from.number, .bytes = {}});
  return [=, number = op.number, of_sent = row_major_bytes(context.inputs),
          of_received = row_major_bytes(context.outputs)](Collectives& all, bool) mutable {
    for (size_t i = 0; i < sent.size(); ++i)
      sent[i].bytes = memory<const std::byte>(slots.inputs[i], of_sent[i]);
    for (size_t i = 0; i < received.size(); ++i)
      received[i].bytes = memory<std::byte>(slots.outputs[i], of_received[i]);
    all.start_exchange(number, sent, received);
  };
}

}  // namespace

std::vector<int64_t> output_bytes(const OpContext& context, const Choice& choice) {
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    const TensorSpec& output = context.outputs[i];
    bytes.push_back(stored_elements(choice.outputs[i], output.shape) * bytes_per_element(output.dtype));
  }
  return bytes;
}

StartCollective start_of(const OpContext& context, const Choice& choice, const Slots& slots) {
  if (const auto* op = dynamic_cast<const AllGatherStart*>(&context.op)) return gather(*op, context, slots);
  if (const auto* op = dynamic_cast<const ReduceScatterStart*>(&context.op))
    return scatter(*op, context, slots);
  if (const auto* op = dynamic_cast<const ExchangeStart*>(&context.op)) return exchange(*op, context, slots);
  const std::vector<int64_t> bytes = output_bytes(context, choice);
  if (const auto* op = dynamic_cast<const AllReduceStart*>(&context.op)) {
    return over_outputs(bytes, slots, op->axis,
                        [number = op->number, axis = op->axis](Collectives& all, auto& numbers) {
                          all.start_all_reduce(number, axis, numbers);
                        });
  }
  if (const auto* op = dynamic_cast<const BroadcastStart*>(&context.op)) {
    return over_outputs(bytes, slots, op->axis,
                        [number = op->number, root = op->root](Collectives& all, auto& numbers) {
                          all.start_broadcast(number, root, numbers);
                        });
  }
  throw std::logic_error("a collective that nothing starts");
}

}  // namespace trainer
