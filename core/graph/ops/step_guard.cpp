// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/step_guard.h"

#include "core/graph/names.h"

namespace trainer {
namespace {

const TensorSpec kScalarSpec{{1}, DType::f32}, kCounterSpec{{1}, DType::i32};

bool absent_or(const TensorSpec& spec, const TensorSpec& expected) {
  return spec.shape.empty() || spec == expected;
}

}  // namespace

void StepGuard::describe(AttributeVisitor& visit) const {
  visit("loss_sigmas", loss_sigmas, {.hidden = loss_sigmas == 0});
  visit("norm_sigmas", norm_sigmas, {.hidden = norm_sigmas == 0});
  visit("scaled", scaled);
}

std::vector<TensorSpec> StepGuard::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "takes a loss, the result of the check, and the guard's state");
  expect(inputs[kLoss] == kScalarSpec && absent_or(inputs[kFound], kScalarSpec) &&
             absent_or(inputs[kNorm], kScalarSpec),
         "needs numbers of one element");
  const TensorSpec& pairs = inputs[kSkipSteps];
  expect(pairs.shape.empty() || (pairs.dtype == DType::i32 && pairs.shape.size() == 1 &&
                                 pairs.shape[0] % 2 == 0 && !inputs[kSteps].shape.empty()),
         "needs pairs of steps, and the steps so far");
  const TensorSpec& window = inputs[kWindow];
  const bool is_window = window.dtype == DType::f32 && window.shape.size() == 2 && window.shape[0] == 2;
  expect(window.shape.empty() ||
             (is_window && !inputs[kAccepted].shape.empty() && (loss_sigmas > 0 || norm_sigmas > 0)),
         "needs a window of losses and norms, their number, and a limit");
  expect(norm_sigmas == 0 || !inputs[kNorm].shape.empty(), "needs the norm that it watches");
  for (const size_t i : {size_t{kSteps}, size_t{kAccepted}, size_t{kSkipped}, size_t{kInARow}}) {
    expect(absent_or(inputs[i], kCounterSpec), "needs counters");
  }
  return {kScalarSpec,  kScalarSpec,  kCounterSpec, window.shape.empty() ? kScalarSpec : window,
          kCounterSpec, kCounterSpec, kCounterSpec};
}

}  // namespace trainer
