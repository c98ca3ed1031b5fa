// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void unscale(const Call& call) {
  const auto max_norm = call.as<Unscale>().max_norm;
  const double scale = call.in(Unscale::kScale)[0];
  double sum = 0;
  bool found = false;
  for (size_t i = Unscale::kFirstGradient; i < call.inputs.size(); ++i) {
    for (int64_t e = 0; e < call.count_in(i); ++e) {
      const double g = call.in(i)[e];
      found = found || !(std::abs(g) <= std::numeric_limits<float>::max());  // it would be stored as f32
      sum += g / scale * (g / scale);
    }
  }
  const double norm = std::sqrt(sum), limited = max_norm ? *max_norm / (norm + 1e-6) : 1;
  call.out(Unscale::kFactor)[0] = (limited > 1 ? 1 : limited) / scale;
  if (call.has_output(Unscale::kFound)) call.out(Unscale::kFound)[0] = found;
  if (call.has_output(Unscale::kNorm)) call.out(Unscale::kNorm)[0] = norm;
}

void multiply_by(const Call& call) {
  for (int64_t i = 0, count = call.count_out(MultiplyBy::kY); i < count; ++i)
    call.out(MultiplyBy::kY)[i] = call.in(MultiplyBy::kX)[i] * call.in(MultiplyBy::kFactor)[0];
}

void update_loss_scale(const Call& call) {
  const LossScaling& how = call.as<UpdateLossScale>().scaling;
  const double scale = call.in(UpdateLossScale::kScale)[0], grown = scale * how.growth;
  const int32_t good = call.in<int32_t>(UpdateLossScale::kGoodSteps)[0] + 1,
                skipped = call.in<int32_t>(UpdateLossScale::kSkipped)[0];
  const bool held = call.has_input(UpdateLossScale::kHeld) && call.in(UpdateLossScale::kHeld)[0] != 0;
  if (held) {
    const int32_t before = call.in<int32_t>(UpdateLossScale::kGoodSteps)[0];
    call.out(UpdateLossScale::kScale)[0] = scale;
    if (call.has_output(UpdateLossScale::kGoodSteps))
      call.out<int32_t>(UpdateLossScale::kGoodSteps)[0] = before;
    if (call.has_output(UpdateLossScale::kSkipped)) call.out<int32_t>(UpdateLossScale::kSkipped)[0] = skipped;
    return;
  }
  const bool found = call.in(UpdateLossScale::kFound)[0] != 0, grows = !found && good == how.interval;
  const bool fits = grown <= std::numeric_limits<float>::max();
  call.out(UpdateLossScale::kScale)[0] = found           ? std::max(scale * how.backoff, how.smallest)
                                         : grows && fits ? grown
                                                         : scale;
  if (call.has_output(UpdateLossScale::kGoodSteps))
    call.out<int32_t>(UpdateLossScale::kGoodSteps)[0] = found || grows ? 0 : good;
  if (call.has_output(UpdateLossScale::kSkipped))
    call.out<int32_t>(UpdateLossScale::kSkipped)[0] = skipped + (found ? 1 : 0);
}

}  // namespace

void add_loss_scale(Loops& loops) {
  loops[typeid(Unscale)] = unscale;
  loops[typeid(MultiplyBy)] = multiply_by;
  loops[typeid(UpdateLossScale)] = update_loss_scale;
}

}  // namespace trainer::reference
