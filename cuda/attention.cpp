// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <span>

#include "cuda/table.h"

namespace trainer::cuda {
namespace {

namespace in = attention_input;

/// All but the addresses.
AttentionCall call_of(const OpContext& context) {
  const AttentionSettings& settings = attention_settings(context.op);
  const AttentionSizes e(settings, context.inputs[in::kQ].shape, context.inputs[in::kK].shape);
  AttentionCall call;
  call.settings = settings;
  call.drops = settings.dropout.has_value();
  if (settings.dropout) call.dropout = *settings.dropout, call.kept = settings.dropout->kept();
  call.scale = static_cast<float>(settings.factor(e.size));
  call.samples = static_cast<int>(e.samples);
  call.queries = static_cast<int>(e.queries);
  call.keys = static_cast<int>(e.keys);
  call.heads = static_cast<int>(e.heads);
  call.kv_heads = static_cast<int>(e.kv_heads);
  call.size = static_cast<int>(e.size);
  call.q.stride = static_cast<int>(e.q_row());
  call.k.stride = call.v.stride = static_cast<int>(e.kv_row());
  return call;
}

/// With the first of this rank's heads among those of all ranks.
AttentionCall own_call(const Gpu& gpu, const OpContext& context) {
  AttentionCall call = call_of(context);
  call.settings.first_head = call.heads * gpu.position_along(call.settings.along);
  return call;
}

/// The place of keys and values: in tensors of their own, or within the packed one.
struct KeysAndValues {
  int64_t k_bytes, v_bytes;
  bool packed;

  explicit KeysAndValues(const OpContext& context) {
    const TensorSpec& q = context.inputs[in::kQ];
    const AttentionSizes e(attention_settings(context.op), q.shape, context.inputs[in::kK].shape);
    packed = e.packed;
    k_bytes = e.k_begin() * bytes_per_element(q.dtype);
    v_bytes = e.v_begin() * bytes_per_element(q.dtype);
  }
  /// Of the tensors at these slots, which are queries (or all packed), keys and values, or their gradients.
  std::array<void*, 3> at_slots(std::span<void* const* const> slots) const {
    char* const first = optional_at<char>(slots[0]);
    if (packed) return {first, first + k_bytes, first + v_bytes};
    return {first, optional_at<void>(slots[1]), optional_at<void>(slots[2])};
  }
};

AttentionCall with_addresses(AttentionCall call, const KeysAndValues& kv, const Slots& slots) {
  const auto [q, k, v] = kv.at_slots(slots.inputs);
  call.q.data = q, call.k.data = k, call.v.data = v;
  call.first = optional_at<const int32_t>(slots.inputs[in::kFirstPosition]);
  call.start = optional_at<const int32_t>(slots.inputs[in::kStart]);
  call.sample = optional_at<const int32_t>(slots.inputs[in::kSample]);
  call.step = optional_at<const int32_t>(slots.inputs[in::kStep]);
  return call;
}

Choice select_forward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return row_major(context, "tiles");
}

Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "tiles");
  choice.workspace_bytes = attention_workspace_bytes(call_of(context));
  choice.kernels = 3;
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  return kernel(context, [=, call = own_call(gpu, context), kv = KeysAndValues(context),
                          dtype = context.inputs[in::kQ].dtype, stream = gpu.stream.get()] {
    float* lse = optional_at<float>(slots.output(Attention::kLogSum));
    return launch_attention(with_addresses(call, kv, slots), dtype, *slots.outputs[Attention::kY], lse,
                            stream);
  });
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  return kernel(context, [=, call = own_call(gpu, context), kv = KeysAndValues(context),
                          dtype = context.inputs[in::kQ].dtype, stream = gpu.stream.get()] {
    const auto [dq, dk, dv] = kv.at_slots(slots.outputs);
    const AttentionGradients of{.dy = *slots.inputs[in::kDy],
                                .y = *slots.inputs[in::kY],
                                .lse = at<const float>(slots.inputs[in::kLogSum]),
                                .dq = dq,
                                .dk = dk,
                                .dv = dv};
    return launch_attention_backward(with_addresses(call, kv, slots), dtype, of, *slots.workspace, stream);
  });
}

std::optional<std::string> why_not_attention(const Gpu& gpu, const OpContext& context) {
  if (std::optional<std::string> reason = floats_only(gpu, context)) return reason;
  const AttentionCall call = call_of(context);
  if (attention_blocks(call) <= std::numeric_limits<int32_t>::max()) return std::nullopt;
  return fmt::format("{} samples of {} queries and {} heads are more than one launch of a GPU takes",
                     call.samples, call.queries, call.heads);
}

}  // namespace

const AttentionSettings& attention_settings(const Operation& op) {
  if (const auto* forward = dynamic_cast<const Attention*>(&op)) return forward->settings;
  return static_cast<const AttentionBackward&>(op).settings;
}

void add_attention(Handlers& handlers) {
  handlers[typeid(Attention)] = {select_forward, compile_forward, why_not_attention};
  handlers[typeid(AttentionBackward)] = {select_backward, compile_backward, why_not_attention};
}

}  // namespace trainer::cuda
