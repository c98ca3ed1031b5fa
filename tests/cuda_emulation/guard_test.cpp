// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/ops/keep.h"
#include "core/passes/pass.h"
#include "core/step/guard.h"
#include "tests/cuda_emulation/backend.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

constexpr const char* kStep = entry_name::kTrainStep;

/// A guard with states that are changed in place, and a tensor that stays unchanged in a skipped step.
Program guard_program(const SpikeLimit& limit) {
  Program program;
  program.entries.emplace_back(kStep);
  Builder build(program, program.entries[0]);
  const StepGuards guards{.loss = true, .counts = true, .spike = limit, .skip_steps = {3, 4}};
  const TensorSpec scalar{{1}, DType::f32}, values{{33}, DType::f32};
  const std::vector<TensorId> in = {program.input("loss", scalar),
                                    program.input("found", scalar),
                                    program.input("norm", scalar),
                                    program.input("steps", {{1}, DType::i32}),
                                    guard_skip_steps(program, guards),
                                    guard_window(program, limit),
                                    guard_accepted(program),
                                    guard_skipped(program),
                                    guard_in_a_row(program)};
  const auto out =
      build.emit_all(std::make_shared<StepGuard>(limit.loss_sigmas, limit.norm_sigmas, false), in);
  for (size_t s = 0; s < StepGuard::kStates; ++s)
    build.assign(in[StepGuard::kWindow + s], out[StepGuard::kFirstState + s]);
  program.entries[0].outputs.push_back({"reason", out[StepGuard::kReason]});
  const TensorId kept = program.persistent("kept", values, Role::state, {});
  build.assign(kept, build.emit<Keep>({kept, program.input("fresh", values), out[StepGuard::kSkip]}));
  return program;
}

}  // namespace

TEST_CASE("a guard's states, changed where they lie, follow the reference in any order of threads") {
  const auto backend = make_emulated_backend();
  const Backend reference = make_reference_backend();
  for (const uint32_t schedule : {0, 1, 7}) {
    emulation::set_schedule(schedule);
    const Program program = guard_program({.loss_sigmas = 4, .norm_sigmas = 5, .window = 37});
    Session emulated(program, backend), exact(program, reference);
    RandomStream random(random_key(schedule, "losses"));
    int skipped = 0;
    for (int step = 0; step < 90; ++step) {
      INFO("schedule " << schedule << ", step " << step);
      float loss = 1 + random.next_uniform();
      if (step % 11 == 5) loss = NAN;
      if (step % 17 == 16) loss = 50;
      const float norm = step % 19 == 18 ? 70 : 2 + random.next_uniform();
      std::vector<float> fresh(33, static_cast<float>(step));
      for (Session* session : {&emulated, &exact}) {
        session->set({{"loss", {loss}},
                      {"found", {step % 13 == 12 ? 1.0f : 0.0f}},
                      {"norm", {norm}},
                      {"steps", {static_cast<float>(step)}},
                      {"fresh", fresh}});
        session->run(kStep);
      }
      skipped += exact.output(kStep, "reason")[0] != 0 ? 1 : 0;
      REQUIRE(emulated.output(kStep, "reason") == exact.output(kStep, "reason"));
      for (const char* name : {"guard.window", "guard.accepted", "guard.skipped", "guard.in_a_row", "kept"}) {
        INFO(name);
        REQUIRE(emulated.persistent(name) == exact.persistent(name));
      }
    }
    CHECK(skipped > 15);
    for (const emulation::Fault& fault : emulation::take_faults())
      FAIL_CHECK(fault.kind << ": " << fault.text);
  }
}

}  // namespace trainer
