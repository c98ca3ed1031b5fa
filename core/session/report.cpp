// SPDX-License-Identifier: Apache-2.0
#include "core/session/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/graph/operation.h"
#include "core/graph/ops/batch_norm.h"
#include "core/host/process.h"
#include "core/recipe/assemble.h"

namespace trainer {
namespace {

int64_t parameter_count(const Program& program) {
  int64_t count = 0;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter) count += numel(whole_shape(tensor));
  }
  return count;
}

/// Statistics are those of the samples that one rank computes at once. The number of ranks changes that,
/// unless the recipe fixes it.
std::optional<std::string> statistics_note(const Job& job) {
  const Recipe& recipe = job.spec.recipe();
  if (job.spec.batch().share.ranks == 1 || recipe.training.micro_batch_size ||
      recipe.parallelism.sync_batch_norm)
    return std::nullopt;
  if (std::ranges::none_of(job.program.entries.front().nodes, [](const Node& node) {
        return dynamic_cast<const BatchNorm*>(node.op.get()) != nullptr;
      }))
    return std::nullopt;
  return fmt::format(
      "batch normalisation takes its statistics from the {0} samples that a rank computes at once; "
      "training.micro_batch_size={0} gives the same on any number of ranks, and "
      "parallelism.sync_batch_norm=true takes them from the samples of all ranks",
      job.spec.batch().micro_batch);
}

bool stops_early(const Job& job, const LoopState& state) {
  return state.step < job.settings.steps;
}

/// A word of a line of shell.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=-+:,@%";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// A directory as a word of a command line: neither an option nor an override of a key.
std::string directory_word(const std::filesystem::path& directory) {
  const std::string name = directory.string();
  const bool is_plain = !name.starts_with('-') && name.find('=') == std::string::npos;
  return shell_word(is_plain || directory.is_absolute() ? name : "./" + name);
}

/// The command that applies a run's network to new samples; "" if there is none.
std::string use_of(const Job& job, const std::string& run) try {
  if (job.spec.recipe().model.kind() == InputKind::tokens)
    return fmt::format("trainer generate {} --prompt TEXT", run);
  check_prediction(job.spec);
  const bool reads_tables = is_of_table(job.spec.recipe().model.kind());
  return fmt::format("trainer predict {} {}", run, reads_tables ? "FILE.csv" : "IMAGES");
} catch (const Error&) {
  return "";
}

}  // namespace

std::string ending_of(const Job& job, const LoopState& state) {
  if (!stops_early(job, state)) return "";
  return "early stop: " + early_stop_text(*job.settings.early_stop, *state.early_stop);
}

std::string pause_text(const Job& job, const LoopState& state) {
  return fmt::format("paused after step {} of {}, as run.stop_after says; a larger value continues the run",
                     state.step, job.settings.steps);
}

std::string split_text(const BatchSplit& batch) {
  const int64_t ranks = batch.share.ranks, micro_batches = batch.micro_batches();
  if (!batch.is_even())
    return fmt::format(" ({} ranks, {} x {} on them)", ranks, fmt::join(batch.shares(), ", "),
                       batch.micro_batch);
  if (ranks == 1 && micro_batches == 1) return "";
  return fmt::format(" ({}{}{})", ranks > 1 ? fmt::format("{} ranks x ", ranks) : "",
                     micro_batches > 1 ? fmt::format("{} x ", micro_batches) : "", batch.micro_batch);
}

void announce(const Job& job, const Planner& planner, const RunDirectory& directory, const Start& start,
              const Tuning& tuning, Log& log) {
  const BatchSplit& batch = job.spec.batch();
  log.info(fmt::format("run {} in {}", job.spec.recipe().run.name, one_line(directory.path().string())));
  log.info(fmt::format("{} parameters, {} steps of {} samples{}, on {}, memory {} planned",
                       parameter_count(job.program), job.settings.steps, batch.global_batch,
                       split_text(batch), planner.name(), human_bytes(job.memory.total())));
  if (const std::string rate = job.spec.recipe().rate_text(); !rate.empty()) log.info(rate);
  for (const auto& [key, info] : {std::pair{"data.train", job.train}, {"data.val", job.validation}}) {
    if (info && info->skipped.total() > 0) log.warn(fmt::format("{}: {}", key, info->skipped.text()));
    if (info && !info->summary.empty()) log.info(info->summary);
    if (info && !info->warning.empty()) log.warn(info->warning);
  }
  if (job.found_micro_batch) {
    log.info(fmt::format("training.micro_batch_size=auto chose {}: the largest divisor of {} whose plan fits",
                         batch.micro_batch, batch.rank_batch()));
  }
  if (const auto note = statistics_note(job)) log.info(*note);
  for (const std::string& remark : remarks_of(planner, job)) log.warn(remark);
  for (const std::string& note : start.notes) log.warn(note);
  for (const std::string& candidate : tuning.wrong) {
    log.warn(fmt::format("runtime.autotune passed over {}: its result differs from that of other candidates",
                         candidate));
  }
  if (start.from) {
    log.info(fmt::format("resuming after step {}, from {}", start.step(),
                         one_line(start.from->checkpoint.string())));
    for (const std::string& departure : departures(job.spec, start, planner, tuning)) log.warn(departure);
  } else if (directory.state() == RunDirectory::State::unfinished) {
    log.warn(
        "an earlier run of this recipe was stopped before its first checkpoint; starting again from step 0");
  }
}

void announce_time(const LoopResult& result, Log& log) {
  const std::string advice = time_advice(result.time, result.facts);
  log.info(fmt::format("time: {}{}{}", time_text(result.time), advice.empty() ? "" : ": ", advice));
  if (result.joules_per_sample > 0)
    log.info(fmt::format("energy: {:.3g} J a sample", result.joules_per_sample));
  if (!result.throttling.empty()) log.warn("the device was " + result.throttling);
}

std::vector<std::string> next_commands(const Job& job, const std::filesystem::path& run) {
  const std::string name = directory_word(run);
  std::vector<std::string> commands = {"trainer report " + name};
  if (job.validation) commands.push_back("trainer eval " + name);
  if (std::string use = use_of(job, name); !use.empty()) commands.push_back(std::move(use));
  return commands;
}

Summary summary_of(const Job& job, const LoopState& state, const LoopResult& result,
                   const BestEvaluation& best, int64_t unreadable_samples) {
  Summary summary = {{"finished", true},
                     {"run.name", job.spec.recipe().run.name},
                     {"steps", state.step},
                     {"ranks", job.spec.ranks()},
                     {"training.loss", state.train_loss},
                     {"training.seconds", result.training_seconds},
                     {"training.first_step_seconds", result.first_step_seconds},
                     {"data.unreadable_samples", unreadable_samples},
                     {"memory.planned_bytes", job.memory.total()},
                     {"memory.peak_bytes", peak_resident_bytes()}};
  for (const TimePart& part : kTimeParts) summary.emplace_back(summary_key(part), result.time.*part.seconds);
  if (result.joules_per_sample > 0)
    summary.emplace_back("device.joules_per_sample", result.joules_per_sample);
  if (result.device_memory_bytes > 0) summary.emplace_back("device.memory_bytes", result.device_memory_bytes);
  if (!result.throttling.empty()) summary.emplace_back("device.throttling", result.throttling);
  if (const auto& stop = state.early_stop) {
    summary.emplace_back("early_stop.stopped", stops_early(job, state));
    if (stop->best_step > 0) summary.emplace_back("early_stop.best", stop->best);
    if (stop->best_step > 0) summary.emplace_back("early_stop.best_step", stop->best_step);
  }
  if (!best.metric.empty()) {
    summary.emplace_back("best.metric", best.metric);
    summary.emplace_back("best.value", best.value);
    summary.emplace_back("best.step", best.step);
  }
  for (const auto& [name, value] : state.last) summary.emplace_back("validation.last." + name, value);
  for (const auto& [name, value] : state.best) summary.emplace_back("validation.best." + name, value);
  return summary;
}

std::string closing_line(const Job& job, const LoopState& state, const LoopResult& result,
                         const BestEvaluation& best) {
  std::string text = fmt::format("done: {}{} steps in {}", state.step,
                                 stops_early(job, state) ? fmt::format(" of {}", job.settings.steps) : "",
                                 human_seconds(result.training_seconds));
  for (const auto& [name, value] : state.last) text += fmt::format(", validation {} {:.4f}", name, value);
  if (!best.metric.empty())
    text += fmt::format("; best {} {:.4f} at step {}", best.metric, best.value, best.step);
  return text;
}

}  // namespace trainer
