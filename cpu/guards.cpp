// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/keep.h"
#include "core/graph/ops/step_guard.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

bool is_set(void* const* slot) {
  return slot != nullptr && *at<const float>(slot) != 0;
}

int32_t count_or_0(void* const* slot) {
  return slot == nullptr ? 0 : *at<const int32_t>(slot);
}

template <class T>
void put_number(void* const* slot, T value) {
  if (slot != nullptr) *at<T>(slot) = value;
}

bool is_listed(const int32_t* pairs, int64_t size, int32_t step) {
  for (int64_t i = 0; i < size; i += 2) {
    if (pairs[i] <= step && step <= pairs[i + 1]) return true;
  }
  return false;
}

bool is_spike(double sigmas, float value, const float* window, int64_t size, int32_t accepted) {
  const int64_t count = std::min<int64_t>(size, accepted);
  if (count < SpikeLimit::fewest(size)) return false;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) sum += window[i];
  const double mean = sum / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) squares += (window[i] - mean) * (window[i] - mean);
  return SpikeLimit::is_spike(sigmas, value, mean, squares, count);
}

std::unique_ptr<Kernel> compile_guard(const OpContext& context, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const StepGuard&>(context.op);
  const int64_t pairs = numel(context.inputs[StepGuard::kSkipSteps].shape),
                size = numel(context.inputs[StepGuard::kWindow].shape) / 2;
  return kernel([=, &op, in = slots.inputs, out = slots.outputs] {
    auto next = [&](size_t state) { return out[StepGuard::kFirstState + state - StepGuard::kWindow]; };
    const float loss = *at<const float>(in[StepGuard::kLoss]);
    const float norm = in[StepGuard::kNorm] == nullptr ? 0 : *at<const float>(in[StepGuard::kNorm]);
    StepFacts step{.finite_loss = std::isfinite(loss), .found = is_set(in[StepGuard::kFound])};
    step.listed =
        in[StepGuard::kSkipSteps] != nullptr &&
        is_listed(at<const int32_t>(in[StepGuard::kSkipSteps]), pairs, count_or_0(in[StepGuard::kSteps]) + 1);
    void* const* window = in[StepGuard::kWindow];
    const int32_t accepted = count_or_0(in[StepGuard::kAccepted]);
    if (window != nullptr) {
      const auto* losses = at<const float>(window);
      step.loss_jumps = op.loss_sigmas > 0 && is_spike(op.loss_sigmas, loss, losses, size, accepted);
      step.norm_jumps = op.norm_sigmas > 0 && (!std::isfinite(norm) ||
                                               is_spike(op.norm_sigmas, norm, losses + size, size, accepted));
    }
    const StepVerdict verdict = StepVerdict::of(step, op.scaled);
    const int32_t skipped = verdict.skipped(count_or_0(in[StepGuard::kSkipped])),
                  in_a_row = verdict.in_a_row(count_or_0(in[StepGuard::kInARow]));
    put_number(out[StepGuard::kSkip], verdict.skip ? 1.0f : 0.0f);
    put_number(out[StepGuard::kHeld], verdict.held() ? 1.0f : 0.0f);
    put_number(out[StepGuard::kReason], static_cast<int32_t>(verdict.reason));
    if (window != nullptr && next(StepGuard::kWindow) != nullptr) {
      float* to = at<float>(next(StepGuard::kWindow));
      if (to != *window) std::copy_n(at<const float>(window), 2 * size, to);
      if (!verdict.skip) {
        to[accepted % size] = loss;
        to[size + accepted % size] = norm;
      }
    }
    put_number(next(StepGuard::kAccepted), accepted + (verdict.skip ? 0 : 1));
    put_number(next(StepGuard::kSkipped), skipped);
    put_number(next(StepGuard::kInARow), in_a_row);
  });
}

std::unique_ptr<Kernel> compile_keep(const OpContext& context, const Choice& choice, const Slots& slots) {
  const int64_t count = stored_elements(choice.inputs[Keep::kOld], context.inputs[Keep::kOld].shape);
  return kernel([=, in = slots.inputs, y = slots.outputs[Keep::kY]] {
    const float* from = at<const float>(in[is_set(in[Keep::kSkip]) ? Keep::kOld : Keep::kFresh]);
    if (from == *y) return;
    parallel_elements(count, [=](int64_t begin, int64_t end) {
      std::copy(from + begin, from + end, at<float>(y) + begin);
    });
  });
}

}  // namespace

void add_guards(Handlers& handlers) {
  handlers[typeid(StepGuard)] = {select_row_major, compile_guard, {}};
  handlers[typeid(Keep)] = {
      [](const OpContext& context, const OpenLayouts& inputs) {
        return select_same(context, {inputs[Keep::kOld] ? inputs[Keep::kOld] : inputs[Keep::kFresh]}, true);
      },
      compile_keep,
      {}};
}

}  // namespace trainer::cpu
