// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/stage_programs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/step/share_persistent.h"

namespace trainer {
namespace {

/// From this pass on each stage has a program of its own.
constexpr const char* kOwnStage = "own_stage";
/// From this pass on only the order of nodes changes.
constexpr const char* kScheduleStages = "schedule_stages";

std::vector<Pass> between(std::vector<Pass> passes, const char* begin, const char* end) {
  const auto first = begin == nullptr ? passes.begin() : std::ranges::find(passes, begin, &Pass::name);
  const auto last = end == nullptr ? passes.end() : std::ranges::find(passes, end, &Pass::name);
  return {std::move_iterator(first), std::move_iterator(last)};
}

}  // namespace

std::shared_ptr<const Program> program_of_all_stages(const RunSpec& run, const ProgramRequest& request,
                                                     const PassObserver& observe) {
  return std::make_shared<const Program>(
      make_program(run, between(passes_for(run, request), nullptr, kOwnStage), observe));
}

Program program_of_stage(const RunSpec& run, const ProgramRequest& request, const Program& all,
                         const PassObserver& observe) {
  Program own = all;
  run_passes(own, between(passes_for(run, request), kOwnStage, nullptr), observe);
  std::vector<Program> stages;
  for (int64_t stage = 0; stage < run.mesh().stages; ++stage) {
    Program& program = stages.emplace_back(stage == own.stage ? own : all);
    if (stage != own.stage)
      run_passes(program, between(passes_for(run.in_stage(stage), request), kOwnStage, kScheduleStages));
  }
  share_persistent(own, stages);
  return own;
}

}  // namespace trainer
