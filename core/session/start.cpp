// SPDX-License-Identifier: Apache-2.0
#include "core/session/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/printable.h"
#include "core/base/version.h"
#include "core/recipe/about.h"
#include "core/recipe/teacher.h"
#include "core/run/run_directory.h"
#include "core/session/earlier_split.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The name of the samples, and of all keys about them, in run.allow_changes.
constexpr const char *kDataKey = "data", *kTeacherKey = "loss.teacher";

/// The prefix of the validation samples' properties, which distinguishes them from those of training.
const std::string kOfValidation = "validation ";

/// If an environment variable gives one of these, only the samples can say whether validation is the same.
constexpr std::array<const char*, 3> kPathsOfValidation = {"data.val", "data.labels", "data.masks"};

Fingerprint of_validation(const Fingerprint& both) {
  Fingerprint found;
  for (const auto& [name, text] : both) {
    if (name.starts_with(kOfValidation)) found[name.substr(kOfValidation.size())] = text;
  }
  return found;
}

std::map<std::string, std::string> facts_of(const RunSpec& spec, const Planner& planner) {
  std::map<std::string, std::string> facts = planner.facts();
  facts[fact_name::kDevice] = std::string(planner.name());
  facts["trainer"] = kVersion;
  if (const int64_t ranks = spec.ranks(); ranks > 1) facts[fact_name::kRanks] = std::to_string(ranks);
  return facts;
}

/// A checkpoint must belong to this run, apart from allowed changes.
void require_same_run(const RunSpec& spec, const Start& start) {
  const ResumePoint& point = *start.from;
  const std::vector<Difference> different =
      differences_from(point, spec.recipe().identity(), spec.recipe().run.allow_changes);
  if (different.empty()) return;
  const std::string found = fmt::format("{} belongs to another run ({})", one_line(point.checkpoint.string()),
                                        difference_text(different));
  if (!start.is_own) {
    fail_at(spec.recipe().origin_of("run.resume"),
            fmt::format("{}; list these keys in run.allow_changes, or load only its weights with "
                        "model.initial_weights",
                        found));
  }
  throw Error(
      ExitCode::recipe,
      fmt::format("{}, though it is in the directory of this one; nothing was changed: move it elsewhere "
                  "to resume from the checkpoint before it, or list these keys in run.allow_changes to "
                  "resume from it",
                  found));
}

/// The step of the newest checkpoint in the run's directory, intact or not.
std::string newest_name(const RunSpec& spec) {
  const auto saved = list_checkpoints(checkpoint_root(spec.recipe().output_directory()));
  return saved.empty() ? "" : saved.front().filename().string();
}

}  // namespace

Start choose_start(const RunSpec& spec) {
  Start start{.newest = newest_name(spec)};
  const auto warn = [&](const std::string& note) { start.notes.push_back(note); };
  const fs::path root = checkpoint_root(spec.recipe().output_directory());
  if (spec.recipe().run.is_never()) {
    const auto saved = list_checkpoints(root);
    if (saved.empty()) return start;
    fail_at(spec.recipe().origin_of("run.resume"),
            fmt::format("{} contains checkpoints up to step {}, which \"never\" would discard: remove them, "
                        "or choose another run.output_dir",
                        one_line(root.string()), checkpoint_step(saved.front())));
  }
  require_no_earlier_split(spec.recipe());
  // The directory of another run is refused as such, whatever checkpoints are in it.
  RunDirectory::look(spec.recipe().output_directory(), spec.recipe().identity(),
                     spec.recipe().run.allow_changes);
  start.from = newest_checkpoint(root, warn);
  start.unusable = start.notes;
  if (start.from) require_same_run(spec, start);
  const auto path = spec.recipe().run.resume_path();
  if (!path) return start;
  if (start.from) {
    warn(fmt::format("run.resume={} applied only when this run began; resuming from its own checkpoint",
                     path->written));
    return start;
  }
  start.from = checkpoint_at(*path, warn);
  start.is_own = false;
  start.from->state.loop.kept.reset();  // its weights are in the other run's directory
  require_same_run(spec, start);
  return start;
}

void require_whole(const RunSpec& spec, const Start& start) {
  const bool goes_on = start.from && start.is_own;
  if (goes_on || start.newest.empty()) return;
  throw Error(ExitCode::data,
              fmt::format("no checkpoint in {} can be used:\n  {}\nfix the cause, or restore "
                          "one from a copy; to start over, remove them",
                          one_line(checkpoint_root(spec.recipe().output_directory()).string()),
                          fmt::join(start.unusable, "\n  ")));
}

Guards guards_of(const RunSpec& spec, const Start& start) {
  if (!start.from) return Guards::same;
  const std::vector<Difference> all = differences_from(*start.from, spec.recipe().identity());
  const bool differ =
      std::ranges::any_of(all, [](const Difference& each) { return each.path.starts_with("guards"); });
  return differ ? Guards::other : Guards::same;
}

void require_rollbacks(const RunSpec& spec, const Start& start) {
  if (guards_of(spec, start) == Guards::same || start.from->state.loop.guard.rollbacks == 0) return;
  fail_at(spec.recipe().origin_of("guards"),
          fmt::format("guards can no longer change: {} belongs to a run that has rolled back, and the steps "
                      "it skips since then would be computed; restore the old settings",
                      one_line(start.from->checkpoint.string())));
}

RunSpec with_earlier_micro_batch(const RunSpec& spec, const Start& start) {
  if (!start.from || !spec.searches_micro_batch()) return spec;
  const int64_t before = start.from->state.micro_batch_size;
  // Another number of ranks may need another micro-batch.
  const std::vector<int64_t> possible = spec.possible_micro_batches();
  const bool fits = std::ranges::find(possible, before) != possible.end();
  return fits ? spec.with_micro_batch(before) : spec;
}

void require_steps_left(const RunSpec& spec, const Start& start, int64_t steps) {
  if (start.step() <= steps) return;
  fail_at(spec.recipe().origin_of("training.max_duration"),
          fmt::format("ends after step {}, but {} is at step {}; choose a longer duration to resume from it",
                      steps, one_line(start.from->checkpoint.string()), start.step()));
}

std::optional<std::string> require_same_data(const RunSpec& spec, const Start& start,
                                             const Fingerprint& here) {
  if (!start.from) return std::nullopt;
  const Fingerprint& there = start.from->state.data;
  auto difference = fingerprint_difference(there, here);
  const bool is_training = difference.has_value();
  if (!is_training) difference = fingerprint_difference(of_validation(there), of_validation(here));
  if (!difference) return std::nullopt;
  const char* split = is_training ? "training" : "validation";
  const char* key = is_training ? "data.train" : "data.val";
  const std::string found = fmt::format("the {} samples are not those of {}: {}", split,
                                        one_line(start.from->checkpoint.string()), *difference);
  if (std::ranges::find(spec.recipe().run.allow_changes, kDataKey) != spec.recipe().run.allow_changes.end())
    return fmt::format("{}: {}; run.allow_changes allows it", key, found);
  fail_at(
      spec.recipe().origin_of(key),
      fmt::format("{}; restore them, or list {} in run.allow_changes to resume with these", found, kDataKey));
}

void require_same_teacher(const RunSpec& spec, const Start& start, const std::string& here) {
  if (!start.from || start.from->state.teacher.empty() || start.from->state.teacher == here) return;
  const std::vector<std::string>& allowed = spec.recipe().run.allow_changes;
  if (std::ranges::find(allowed, kTeacherKey) != allowed.end()) return;
  throw Error(
      ExitCode::data,
      fmt::format("{}: the teacher ({}) is not the one that {} has learnt from ({}); restore its recipe and "
                  "weights, or list {} in run.allow_changes to go on with this one",
                  to_string(spec.recipe().origin_of("loss.teacher.weights").where), here,
                  one_line(start.from->checkpoint.string()), start.from->state.teacher, kTeacherKey));
}

void require_unchanged(const RunSpec& spec, const Start& start) {
  if (start.newest == newest_name(spec)) return;
  throw Error(ExitCode::io, fmt::format("another process has just changed {}; start the same command again",
                                        spec.recipe().output_directory()));
}

std::vector<std::string> departures(const RunSpec& spec, const Start& start, const Planner& planner,
                                    const Tuning& tuning) {
  if (!start.from) return {};
  const RunState& there = start.from->state;
  std::vector<std::string> sentences = changed_facts(there.facts, facts_of(spec, planner));
  if (there.micro_batch_size != spec.batch().micro_batch) {
    sentences.push_back(fmt::format("training.micro_batch_size was {} and is now {}", there.micro_batch_size,
                                    spec.batch().micro_batch));
  }
  if (there.algorithms != tuning.fastest)
    sentences.emplace_back("other algorithms were timed as the fastest before");
  for (std::string& sentence : sentences)
    sentence += ": the last bits may differ from those of an uninterrupted run";
  return sentences;
}

RunState lasting_state(const RunSpec& spec, const Planner& planner, const Tuning& tuning,
                       const DataSource& train, const DataSource* validation) {
  RunState state;
  state.mathematics = spec.recipe().identity().mathematics;
  state.recipe = spec.recipe().to_yaml(false);
  state.micro_batch_size = spec.batch().micro_batch;
  state.facts = facts_of(spec, planner);
  state.data = train.fingerprint();
  const auto is_open = [&](const char* key) { return spec.recipe().is_left_to_samples(key); };
  if (validation != nullptr && std::ranges::any_of(kPathsOfValidation, is_open)) {
    for (const auto& [name, text] : validation->fingerprint()) state.data[kOfValidation + name] = text;
  }
  state.teacher = teacher_checksum(spec.recipe());
  state.about = about_network(spec.recipe(), train.class_names(), train.preparation());
  state.algorithms = tuning.fastest;
  return state;
}

}  // namespace trainer
