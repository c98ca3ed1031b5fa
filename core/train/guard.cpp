// SPDX-License-Identifier: Apache-2.0
#include "core/train/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/graph/ops/loss_scale.h"

namespace trainer {
namespace {

using Action = GuardSettings::Action;
using What = GuardDecision::What;

/// After this many steps in a row that overflow at the smallest scale of the loss, the scale is not the
/// cause.
constexpr int64_t kMostAtSmallest = 20;
constexpr const char* kAdvice = "lower optimizer.lr, lengthen lr_scheduler.warmup or set optimizer.clip_norm";
/// Norms are watched before anything is clipped.
constexpr const char* kNormAdvice =
    "lower optimizer.lr, lengthen lr_scheduler.warmup or raise guards.spike_sigmas";

std::string name_of(SkipReason reason) {
  switch (reason) {
    case SkipReason::none:
      return "";
    case SkipReason::listed:
      return "listed";
    case SkipReason::loss:
      return "loss";
    case SkipReason::gradients:
      return "gradients";
    case SkipReason::spike:
      return "spike";
    case SkipReason::gradient_spike:
      return "gradient_spike";
  }
  return "";
}

bool is_spike(SkipReason reason) {
  return reason == SkipReason::spike || reason == SkipReason::gradient_spike;
}

/// A NaN's sign is meaningless.
std::string text_of(double number) {
  return std::isnan(number) ? "NaN" : fmt::format("{}", number);
}

}  // namespace

GuardDecision Guard::judge(const StepReport& step) {
  last_judged_ = step.step;
  GuardDecision decision{.reason = name_of(step.reason())};
  const bool overflowed = step.overflows && *step.overflows > state_.overflows;
  if (collapsed(step, overflowed)) {
    decision = {.what = What::stop, .event = "stop", .reason = "loss_scale", .nonfinite = true};
    decision.text = fmt::format(
        "gradients overflowed in {} steps in a row, the last of them step {}, with the loss scale at its "
        "smallest, {}; {}, or write training.precision=amp_bf16",
        state_.at_smallest, step.step, *step.loss_scale, kAdvice);
    return decision;
  }
  switch (step.reason()) {
    case SkipReason::listed:
      decision.event = "skip";
      decision.text = fmt::format("step {} was skipped: it is in the list of steps to skip", step.step);
      return decision;
    case SkipReason::loss:
      return after_skip(step, settings_.nonfinite, fmt::format("the loss became {}", text_of(step.loss)));
    case SkipReason::gradients:
      return after_skip(step, settings_.nonfinite, "gradients became infinite or NaN");
    case SkipReason::spike:
    case SkipReason::gradient_spike: {
      const bool is_loss = step.reason() == SkipReason::spike;
      return after_skip(
          step, is_loss ? settings_.spike : settings_.gradient_spike,
          fmt::format("the {} jumped to {:.6g}, more than {} standard deviations above the last ones,",
                      is_loss ? "loss" : "gradients' norm", is_loss ? step.loss : step.grad_norm.value_or(0),
                      settings_.sigmas));
    }
    case SkipReason::none:
      break;
  }
  // If guards do not count; the loss's scale may have skipped the step.
  if (overflowed) return decision;
  if (!std::isfinite(step.loss))
    return after_skip(step, Action::stop, fmt::format("the loss became {}", text_of(step.loss)));
  const double norm = step.grad_norm.value_or(0);
  if (!std::isfinite(norm))
    return after_skip(step, Action::stop, fmt::format("the gradients' norm became {}", text_of(norm)));
  return decision;
}

GuardDecision Guard::after_skip(const StepReport& step, Action action, const std::string& why) {
  const std::string unguarded = std::isfinite(step.loss) ? "gradients" : "loss";
  GuardDecision decision{.reason = step.reason() == SkipReason::none ? unguarded : name_of(step.reason()),
                         .nonfinite = !is_spike(step.reason())};
  const std::string found = fmt::format("{} at step {}", why, step.step);
  const int64_t in_a_row = step.guard_in_a_row.value_or(0);
  const char* advice = step.reason() == SkipReason::gradient_spike ? kNormAdvice : kAdvice;
  if (action == Action::stop) {
    decision.what = What::stop;
    decision.event = "stop";
    decision.text = fmt::format("{}; {}", found, advice);
  } else if (in_a_row <= settings_.max_skips) {
    decision.event = "skip";
    decision.text = fmt::format("{}; skipped this step ({} in a row)", found, in_a_row);
  } else if (action == Action::roll_back && state_.rollbacks < settings_.max_rollbacks) {
    ++state_.rollbacks;
    decision.what = What::roll_back;
    decision.event = "roll_back";
    decision.text = fmt::format(
        "{}, after {} skipped steps in a row; rolling back to the last checkpoint ({} of {} times) and "
        "skipping the steps since then",
        found, in_a_row - 1, state_.rollbacks, settings_.max_rollbacks);
  } else {
    decision.what = What::stop;
    decision.event = "stop";
    decision.text = fmt::format("{}, after {} skipped steps in a row, and guards.max_skips allows {}{}; {}",
                                found, in_a_row - 1, settings_.max_skips,
                                action == Action::roll_back
                                    ? fmt::format(", and the run has rolled back {} times", state_.rollbacks)
                                    : "",
                                advice);
  }
  return decision;
}

/// Whether the loss's scale is of no more use.
bool Guard::collapsed(const StepReport& step, bool overflowed) {
  if (!step.overflows) return false;
  const bool held = step.reason() != SkipReason::none;
  state_.overflows = *step.overflows;
  if (overflowed && *step.loss_scale <= LossScaling{}.smallest) {
    ++state_.at_smallest;
  } else if (!held) {
    state_.at_smallest = 0;
  }
  return state_.at_smallest >= kMostAtSmallest;
}

StepRange Guard::rolled_back(int64_t step, const GuardState& saved) {
  const int64_t rollbacks = state_.rollbacks;
  state_ = saved;
  state_.rollbacks = rollbacks;
  return {step + 1, last_judged_};
}

std::vector<int32_t> skip_table(std::vector<int64_t> steps, int64_t room) {
  std::sort(steps.begin(), steps.end());
  std::vector<int32_t> table;
  for (const int64_t number : steps) {
    const auto step = static_cast<int32_t>(number);
    if (!table.empty() && step <= table.back() + 1) {
      table.back() = step;
    } else {
      table.insert(table.end(), {step, step});
    }
  }
  table.resize(table.size() + 2 * static_cast<size_t>(room), 0);
  return table;
}

void add_range(std::vector<int32_t>& skip_table, StepRange range) {
  for (size_t i = 0; i < skip_table.size(); i += 2) {
    if (skip_table[i + 1] != 0) continue;
    skip_table[i] = static_cast<int32_t>(range.first);
    skip_table[i + 1] = static_cast<int32_t>(range.last);
    return;
  }
  throw std::logic_error("the table of steps to skip is full");
}

}  // namespace trainer
