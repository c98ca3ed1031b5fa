// SPDX-License-Identifier: Apache-2.0
#include "core/train/guard.h"

#include <cmath>
#include "tests/catch.h"

using namespace trainer;

namespace {

using Action = GuardSettings::Action;
using What = GuardDecision::What;

StepReport bad(int64_t step, SkipReason reason, int64_t in_a_row) {
  return {.step = step,
          .loss = reason == SkipReason::loss ? NAN : 9.5,
          .guard_reason = reason,
          .guard_in_a_row = in_a_row};
}

}  // namespace

TEST_CASE("without guards a loss that is no number ends the run, and a large one does not") {
  Guard guard(GuardSettings{});
  CHECK(guard.judge({.step = 1, .loss = 1e30}).what == What::go_on);
  CHECK(guard.judge({.step = 1, .loss = 1e30}).event.empty());
  const GuardDecision decision = guard.judge({.step = 2, .loss = INFINITY});
  CHECK(decision.what == What::stop);
  CHECK(decision.nonfinite);
  CHECK(decision.text ==
        "the loss became inf at step 2; lower optimizer.lr, lengthen lr_scheduler.warmup or set "
        "optimizer.clip_norm");
}

TEST_CASE("a norm of gradients that is no number ends the run, unless the step was skipped") {
  Guard guard(GuardSettings{});
  CHECK(guard.judge({.step = 1, .loss = 1, .grad_norm = 1e30}).what == What::go_on);
  const GuardDecision decision = guard.judge({.step = 2, .loss = 1, .grad_norm = NAN});
  CHECK(decision.what == What::stop);
  CHECK(decision.nonfinite);
  CHECK(decision.reason == "gradients");
  CHECK(decision.text.starts_with("the gradients' norm became NaN at step 2; lower optimizer.lr"));
  CHECK(guard.judge({.step = 3, .loss = 1, .grad_norm = INFINITY}).what == What::stop);
}

TEST_CASE("with a scaled loss only a step that its scale has skipped may be without a number") {
  for (const bool of_loss : {true, false}) {
    const double loss = of_loss ? NAN : 1, norm = of_loss ? 1 : INFINITY;
    Guard guard({});
    CHECK(guard.judge({.step = 1, .loss = loss, .grad_norm = norm, .loss_scale = 8, .overflows = 1}).what ==
          What::go_on);
    const GuardDecision decision =
        guard.judge({.step = 2, .loss = loss, .grad_norm = norm, .loss_scale = 8, .overflows = 1});
    CHECK(decision.what == What::stop);
    CHECK(decision.reason == (of_loss ? "loss" : "gradients"));
  }
}

TEST_CASE("steps are skipped up to a number in a row, then the run stops") {
  Guard guard({.nonfinite = Action::skip,
               .spike = Action::stop,
               .gradient_spike = Action::stop,
               .sigmas = 6,
               .max_skips = 2});
  for (const SkipReason reason : {SkipReason::loss, SkipReason::gradients}) {
    CHECK(guard.judge(bad(5, reason, 1)).event == "skip");
    CHECK(guard.judge(bad(6, reason, 2)).what == What::go_on);
    const GuardDecision third = guard.judge(bad(7, reason, 3));
    CHECK(third.what == What::stop);
    CHECK(third.event == "stop");
    CHECK(third.reason == (reason == SkipReason::loss ? "loss" : "gradients"));
    CHECK(third.text.find("step 7") != std::string::npos);
    CHECK(third.text.find("guards.max_skips allows 2") != std::string::npos);
  }
  const GuardDecision told = guard.judge(bad(8, SkipReason::listed, 3));
  CHECK(told.what == What::go_on);
  CHECK(told.reason == "listed");
  const GuardDecision spike = guard.judge(bad(9, SkipReason::spike, 1));
  CHECK(spike.what == What::stop);
  CHECK_FALSE(spike.nonfinite);
  CHECK(spike.text.find("the loss jumped to 9.5, more than 6 standard deviations") != std::string::npos);
  CHECK(spike.text.ends_with("or set optimizer.clip_norm"));
  StepReport steep = bad(10, SkipReason::gradient_spike, 1);
  steep.grad_norm = 7.25;
  const GuardDecision of_gradients = guard.judge(steep);
  CHECK(of_gradients.what == What::stop);
  CHECK(of_gradients.reason == "gradient_spike");
  CHECK_FALSE(of_gradients.nonfinite);
  CHECK(of_gradients.text.find("the gradients' norm jumped to 7.25, more than 6") != std::string::npos);
  CHECK(of_gradients.text.ends_with("or raise guards.spike_sigmas"));
}

TEST_CASE("going back is bounded, skips all that came after the checkpoint, and survives a resume") {
  Guard guard({.spike = Action::roll_back, .sigmas = 6, .max_skips = 0, .max_rollbacks = 2});
  const GuardState saved = guard.state();
  for (const int64_t last : {20, 30}) {
    CHECK(guard.judge({.step = last - 1, .loss = 1}).event.empty());
    CHECK(guard.judge(bad(last, SkipReason::spike, 1)).what == What::roll_back);
    const StepRange range = guard.rolled_back(12, saved);
    CHECK(range.first == 13);
    CHECK(range.last == last);
  }
  CHECK(guard.state().rollbacks == 2);
  Guard resumed({.spike = Action::roll_back, .sigmas = 6, .max_skips = 0, .max_rollbacks = 2});
  resumed.restore(guard.state());
  for (Guard* each : {&guard, &resumed}) {
    const GuardDecision decision = each->judge(bad(40, SkipReason::spike, 1));
    CHECK(decision.what == What::stop);
    CHECK(decision.text.find("has rolled back 2 times") != std::string::npos);
  }
}

TEST_CASE("a loss scale that has come down to its smallest ends the run after 20 overflows there") {
  Guard guard({});
  int64_t overflows = 0, step = 0;
  auto overflow = [&](double scale) {
    return guard.judge({.step = ++step, .loss = NAN, .loss_scale = scale, .overflows = ++overflows});
  };
  auto good = [&] {
    return guard.judge({.step = ++step, .loss = 1, .loss_scale = 1, .overflows = overflows});
  };
  for (double scale = 65536; scale > 1; scale /= 2) CHECK(overflow(scale).what == What::go_on);
  for (int i = 0; i < 19; ++i) CHECK(overflow(1).what == What::go_on);
  CHECK(good().what == What::go_on);
  for (int i = 0; i < 19; ++i) CHECK(overflow(1).what == What::go_on);
  Guard resumed({});
  resumed.restore(guard.state());
  for (Guard* each : {&guard, &resumed}) {
    const GuardDecision decision =
        each->judge({.step = step + 1, .loss = NAN, .loss_scale = 1, .overflows = overflows + 1});
    CHECK(decision.what == What::stop);
    CHECK(decision.reason == "loss_scale");
    CHECK(decision.text.find("20 steps in a row") != std::string::npos);
  }
}

TEST_CASE("steps to skip become ranges, with room for more") {
  CHECK(skip_table({}, 0).empty());
  CHECK(skip_table({}, 2) == std::vector<int32_t>{0, 0, 0, 0});
  CHECK(skip_table({9, 3, 4, 5, 4, 11}, 1) == std::vector<int32_t>{3, 5, 9, 9, 11, 11, 0, 0});
  CHECK(skip_table({16777217}, 0) == std::vector<int32_t>{16777217, 16777217});
}
