// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/attention.h"

#include <fmt/format.h>
#include <omp.h>

#include "cpu/attention/use.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

namespace in = attention_input;

attention::Use attention_use(const AttentionSettings& settings, const OpContext& c, int64_t first_head) {
  AttentionSettings own = settings;
  own.first_head = first_head;
  return {.settings = own,
          .sizes = AttentionSizes(settings, c.inputs[in::kQ].shape, c.inputs[in::kK].shape),
          .dtype = c.inputs[in::kQ].dtype,
          .kernels = &attention::best_kernels(),
          .threads = omp_get_max_threads()};
}

std::unique_ptr<attention::Forward> attention_forward(const OpContext& c, int64_t first_head = 0) {
  return make_forward(attention_use(static_cast<const Attention&>(c.op).settings, c, first_head));
}

std::unique_ptr<attention::Backward> attention_backward(const OpContext& c, int64_t first_head = 0) {
  return make_backward(attention_use(static_cast<const AttentionBackward&>(c.op).settings, c, first_head));
}

/// The first of this rank's heads among those of all ranks.
int64_t first_head(const ProcessGroup* group, const AttentionSettings& settings) {
  return settings.heads * position_along(group, settings.along);
}

Choice attention_choice(const OpContext& c, const OpenLayouts& inputs, int64_t workspace_floats) {
  Choice choice = select_row_major(c, inputs);
  choice.implementation = fmt::format("own:{}", attention::best_kernels().name);
  choice.algorithm = "blocks";
  choice.workspace_bytes = workspace_floats * static_cast<int64_t>(sizeof(float));
  return choice;
}

/// Where the inputs are at each run.
class GivenSlots {
 public:
  explicit GivenSlots(const Slots& slots) : inputs_(slots.inputs) {}

  attention::Given forward() const {
    const void* q = data(in::kQ);
    const bool packed = inputs_[in::kK] == nullptr;
    return {.q = q,
            .k = packed ? q : data(in::kK),
            .v = packed ? q : data(in::kV),
            .first = integers(in::kFirstPosition),
            .start = integers(in::kStart),
            .sample = integers(in::kSample),
            .step = integers(in::kStep)};
  }
  attention::GivenBackward backward() const {
    return {.forward = forward(),
            .dy = data(in::kDy),
            .y = data(in::kY),
            .log_sum = static_cast<const float*>(data(in::kLogSum))};
  }

 private:
  const void* data(size_t input) const { return inputs_[input] == nullptr ? nullptr : *inputs_[input]; }
  const int32_t* integers(size_t input) const { return static_cast<const int32_t*>(data(input)); }

  std::vector<void* const*> inputs_;
};

void* wanted(const Slots& slots, size_t output) {
  void* const* slot = slots.output(output);
  return slot == nullptr ? nullptr : *slot;
}

std::unique_ptr<Kernel> compile_attention(const ProcessGroup* group, const OpContext& c, const Slots& slots) {
  std::shared_ptr<attention::Forward> forward =
      attention_forward(c, first_head(group, static_cast<const Attention&>(c.op).settings));
  return kernel([forward, given = GivenSlots(slots), slots, workspace = slots.workspace] {
    forward->run(given.forward(), *slots.outputs[Attention::kY],
                 static_cast<float*>(wanted(slots, Attention::kLogSum)), at<float>(workspace));
  });
}

std::unique_ptr<Kernel> compile_attention_backward(const ProcessGroup* group, const OpContext& c,
                                                   const Slots& slots) {
  std::shared_ptr<attention::Backward> backward =
      attention_backward(c, first_head(group, static_cast<const AttentionBackward&>(c.op).settings));
  const bool packed = c.inputs[in::kK].shape.empty();
  return kernel([=, given = GivenSlots(slots), workspace = slots.workspace] {
    void* dq = wanted(slots, AttentionBackward::kDq);
    backward->run(given.backward(),
                  {.dq = dq,
                   .dk = packed ? dq : wanted(slots, AttentionBackward::kDk),
                   .dv = packed ? dq : wanted(slots, AttentionBackward::kDv)},
                  at<float>(workspace));
  });
}

std::optional<std::string> why_not_attention(const OpContext& c) {
  const DType dtype = c.inputs[in::kQ].dtype;
  if (dtype == DType::f32 || dtype == DType::bf16) return std::nullopt;
  return "the CPU takes sequences in f32 or bf16, not " + std::string(to_string(dtype));
}

}  // namespace

void add_attention(Handlers& handlers) {
  const ProcessGroup* const group = handlers.group();
  handlers[typeid(Attention)] = {[](const OpContext& c, const OpenLayouts& inputs) {
                                   return attention_choice(c, inputs,
                                                           attention_forward(c)->workspace_floats());
                                 },
                                 for_rank(group, compile_attention), why_not_attention};
  handlers[typeid(AttentionBackward)] = {[](const OpContext& c, const OpenLayouts& inputs) {
                                           return attention_choice(c, inputs,
                                                                   attention_backward(c)->workspace_floats());
                                         },
                                         for_rank(group, compile_attention_backward), why_not_attention};
}

}  // namespace trainer::cpu
