// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>

#include "core/graph/ops/keep.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/step_guard.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// A step as its guard sees it.
struct Guarded {
  std::string name;
  float loss = 1, found = 0;
  int64_t steps = 4, accepted = 1000;
  bool scaled = false, counts = true;
  float norm = 1;
};

/// Losses and norms around 1 in a window, `accepted` of which are filled.
void draft_guard(Sketch& sketch, const Guarded& step, int64_t window) {
  std::vector<TensorId> in(StepGuard::kInputs, kNone);
  auto integer = [&](const char* name, int64_t value) {
    const TensorId id = sketch.integers(name, 1, 9);
    sketch.values[name][0] = static_cast<float>(value);
    return id;
  };
  in[StepGuard::kLoss] = sketch.input("guard.loss", {1});
  sketch.values["guard.loss"][0] = step.loss;
  if (step.counts) {
    in[StepGuard::kFound] = sketch.input("found", {1});
    sketch.values["found"][0] = step.found;
    in[StepGuard::kNorm] = sketch.input("norm", {1});
    sketch.values["norm"][0] = step.norm;
    in[StepGuard::kSteps] = integer("steps", step.steps);
    in[StepGuard::kSkipSteps] = sketch.integers("pairs", 6, 1);
    sketch.values["pairs"] = {7, 9, 20, 20, 0, 0};
    in[StepGuard::kWindow] = sketch.input("window", {2, window}, Values::positive);
    in[StepGuard::kAccepted] = integer("accepted", step.accepted);
    in[StepGuard::kSkipped] = integer("skipped", 5);
    in[StepGuard::kInARow] = integer("in_a_row", 2);
  }
  const double sigmas = step.counts ? 3 : 0;
  const auto y = sketch.build().emit_all(std::make_shared<StepGuard>(sigmas, sigmas, step.scaled), in);
  const size_t outputs = step.counts ? y.size() : 1;
  for (size_t i = 0; i < outputs; ++i) sketch.output(fmt::format("{}", i), y[i]);
  sketch.loss(sketch.parameter("p", {3}));
}

}  // namespace

void add_guard_cases(std::vector<KernelCase>& cases) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const Guarded& step :
       std::vector<Guarded>{{"good"},
                            {"NaN", nan},
                            {"infinite", -infinity},
                            {"gradients", 1, 1},
                            {"gradients of a scaled loss", 1, 1, 4, 1000, true},
                            {"spike", 4},
                            {"spike in a window that is not full", 4, 0, 4, 100},
                            {"high before half of the window", 4, 0, 4, 1},
                            {"told", 1, 0, 8},
                            {"told, the last of a range", 1, 0, 19},
                            {"norm", 1, 0, 4, 1000, false, true, 4},
                            {"norm in a window that is not full", 1, 0, 4, 100, false, true, 4},
                            {"infinite norm", 1, 0, 4, 1, false, true, infinity},
                            {"NaN as norm of bad gradients of a scaled loss", 1, 1, 4, 1000, true, true, nan},
                            {"loss alone", 1, 0, 4, 0, false, false},
                            {"loss alone, NaN", nan, 0, 4, 0, false, false}}) {
    for (const int64_t window : {4, 31, 33, 128, 200}) {
      cases.push_back({fmt::format("step_guard {}, window {}", step.name, window),
                       [=](Sketch& sketch) { draft_guard(sketch, step, window); }, false});
    }
  }
  for (const float skip : {0.0f, 1.0f}) {
    for (const int64_t size : {1, 31, 8192, 9001}) {
      cases.push_back({fmt::format("keep and lerp {} {}", skip, size),
                       [=](Sketch& sketch) {
                         const TensorId old = sketch.input("old", {size}),
                                        fresh = sketch.input("fresh", {size}),
                                        given = sketch.input("skip", {1});
                         sketch.values["skip"][0] = skip;
                         // Entries that are not filled are not read.
                         if (skip != 0) sketch.values["fresh"].assign(static_cast<size_t>(size), nan);
                         sketch.output("kept", sketch.build().emit<Keep>({old, fresh, given}));
                         sketch.output("averaged", sketch.build().emit<Lerp>({old, fresh, given}, 0.3));
                         sketch.loss(sketch.parameter("p", {3}));
                       },
                       false});
    }
  }
}

}  // namespace trainer
