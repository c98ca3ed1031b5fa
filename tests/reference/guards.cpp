// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/keep.h"
#include "core/graph/ops/step_guard.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

using Guard = StepGuard;

int32_t count(const Call& call, size_t input) {
  return call.has_input(input) ? call.in<int32_t>(input)[0] : 0;
}

bool told(const Call& call) {
  if (!call.has_input(Guard::kSkipSteps)) return false;
  const int32_t *pairs = call.in<int32_t>(Guard::kSkipSteps), step = count(call, Guard::kSteps) + 1;
  for (int64_t pair = 0; pair < call.count_in(Guard::kSkipSteps) / 2; ++pair) {
    if (step >= pairs[2 * pair] && step <= pairs[2 * pair + 1]) return true;
  }
  return false;
}

/// By the variance as the mean of squares less the square of the mean, of differences to the first number.
/// The window has the losses in its first row, the norms in its second.
bool spike(const Call& call, size_t input, int64_t row) {
  const double sigmas = row == 0 ? call.as<Guard>().loss_sigmas : call.as<Guard>().norm_sigmas;
  if (!call.has_input(Guard::kWindow) || sigmas == 0) return false;
  const int64_t all = call.count_in(Guard::kWindow) / 2;
  const double* window = call.in(Guard::kWindow) + row * all;
  const int64_t filled = std::min<int64_t>(all, count(call, Guard::kAccepted));
  if (filled < std::max<int64_t>(2, all / 2)) return false;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < filled; ++i) {
    const double x = window[i] - window[0];
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(filled);
  const double mean = sum / n, variance = std::max(0.0, (squares - n * mean * mean) / (n - 1));
  const double deviation = std::max(std::sqrt(variance), 1e-6 * std::abs(mean + window[0]));
  return call.in(input)[0] - window[0] - mean > sigmas * deviation;
}

SkipReason reason(const Call& call) {
  const bool found = call.has_input(Guard::kFound) && call.in(Guard::kFound)[0] != 0;
  if (told(call)) return SkipReason::listed;
  if (!std::isfinite(call.in(Guard::kLoss)[0])) return SkipReason::loss;
  if (found && !call.as<Guard>().scaled) return SkipReason::gradients;
  if (spike(call, Guard::kLoss, 0)) return SkipReason::spike;
  if (found || call.as<Guard>().norm_sigmas == 0) return SkipReason::none;
  const bool jumps = !std::isfinite(call.in(Guard::kNorm)[0]) || spike(call, Guard::kNorm, 1);
  return jumps && call.has_input(Guard::kWindow) ? SkipReason::gradient_spike : SkipReason::none;
}

template <class T>
void put(const Call& call, size_t output, T value) {
  if (call.has_output(output)) call.out<T>(output)[0] = value;
}

void step_guard(const Call& call) {
  constexpr size_t kFirst = Guard::kFirstState;
  const SkipReason why = reason(call);
  const bool held = why != SkipReason::none;
  const bool skip = held || (call.has_input(Guard::kFound) && call.in(Guard::kFound)[0] != 0);
  const int32_t accepted = count(call, Guard::kAccepted), in_a_row = count(call, Guard::kInARow);
  const double loss = call.in(Guard::kLoss)[0];
  put(call, Guard::kSkip, skip ? 1.0 : 0.0);
  put(call, Guard::kHeld, held ? 1.0 : 0.0);
  put(call, Guard::kReason, static_cast<int32_t>(why));
  if (call.has_output(kFirst) && call.has_input(Guard::kWindow)) {
    const int64_t size = call.count_in(Guard::kWindow) / 2;
    for (int64_t i = 0; i < 2 * size; ++i) {
      const double norm = call.has_input(Guard::kNorm) ? call.in(Guard::kNorm)[0] : 0;
      const double fresh = i < size ? loss : norm;
      call.out(kFirst)[i] = !skip && i % size == accepted % size ? fresh : call.in(Guard::kWindow)[i];
    }
  }
  put(call, kFirst + 1, skip ? accepted : accepted + 1);
  put(call, kFirst + 2, count(call, Guard::kSkipped) + (held ? 1 : 0));
  const bool counts = held && why != SkipReason::listed;
  put(call, kFirst + 3, counts ? in_a_row + 1 : skip ? in_a_row : 0);
}

void keep(const Call& call) {
  const size_t from = call.in(Keep::kSkip)[0] != 0 ? Keep::kOld : Keep::kFresh;
  for (int64_t i = 0, count = call.count_out(Keep::kY); i < count; ++i)
    call.out(Keep::kY)[i] = call.in(from)[i];
}

}  // namespace

void add_guards(Loops& loops) {
  loops[typeid(Guard)] = step_guard;
  loops[typeid(Keep)] = keep;
}

}  // namespace trainer::reference
