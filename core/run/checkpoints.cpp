// SPDX-License-Identifier: Apache-2.0
#include "core/run/checkpoints.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/host/process.h"
#include "core/run/best_weights.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostFailures = 3;  // in a row
constexpr double kRetrySeconds = 10;

std::string utc_time() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

/// Of a run that has stored these keys.
RunIdentity identity_with(const std::string& mathematics) {
  return parse_identity(mathematics).value_or(RunIdentity{.mathematics = mathematics});
}

}  // namespace

StateImage::Memory Checkpoints::image_memory(const Plan& plan, const CheckpointSettings& policy) {
  return policy.in_background() || plan.is_async ? StateImage::Memory::own : StateImage::Memory::shared;
}

int64_t Checkpoints::memory_bytes(const Plan& plan, const CheckpointSettings& policy) {
  const auto extent = plan.rank == 0 ? StateImage::Extent::all : StateImage::Extent::divided;
  const bool copies = image_memory(plan, policy) == StateImage::Memory::own &&
                      (plan.rank == 0 || StateImage::has_share(plan, plan.rank));
  return (copies ? StateImage::image_bytes(plan, extent) : 0) + StateImage::exchange_bytes(plan);
}

int64_t Checkpoints::checkpoint_bytes(const Plan& plan) {
  int64_t sum = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (outlives_step(plan.tensors[i].role))
      sum += numel(whole_shape(plan.tensors[i])) * plan.placements[i].element_bytes;
  }
  return sum;
}

Checkpoints::Checkpoints(Executable& executable, fs::path root, CheckpointSettings policy,
                         const LoopSettings& settings, RunState facts, Log& log,
                         std::function<void()> durable, std::function<void()> require_held,
                         OtherImages* others)
    : executable_(executable),
      root_(std::move(root)),
      policy_(std::move(policy)),
      settings_(settings),
      facts_(std::move(facts)),
      log_(log),
      durable_(std::move(durable)),
      require_held_(std::move(require_held)),
      rotation_({.root = root_,
                 .run = identity_with(facts_.mathematics),
                 .allow_changes = policy_.allow_changes,
                 .keep_latest = policy_.keep_latest,
                 .require_held = require_held_},
                [this](const std::string& note) { notes_.push_back(note); }),
      image_(executable, image_memory(executable.plan(), policy_), others),
      last_begin_(steady_seconds()) {
  require_held_();
  tidy_checkpoints(root_);
}

void Checkpoints::begin_at(int64_t step, Guards guards) {
  begun_at_ = step;
  guards_ = guards;
}

void Checkpoints::go_on_from(const ResumePoint& point) {
  const LoopState& loop = point.state.loop;
  saved_ = {loop.step, loop.validated};
  from_ = loop.step;
  facts_.best = point.state.best;
  rotation_.begin_with(from_);
  rotation_.set_aside(point.skipped);
  keep_best(facts_.best);
  rotation_.remove_old(from_, facts_.best.step);  // left by a process that was killed before it removed them
  tell_notes();
}

/// Also makes the file of the run's state again if a process was killed, or the run returned to an earlier
/// one. It is a copy, and its checkpoint is kept: if that fails the run continues, and the next save tries it
/// again.
void Checkpoints::keep_best(const BestEvaluation& best) {
  if (best.step > 0 && best.metric.empty()) return;
  require_held_();
  is_best_kept_ = false;
  try {
    keep_best_weights(root_.parent_path(), best);
    is_best_kept_ = true;
  } catch (const Error& problem) {
    notes_.push_back(fmt::format("{} is not of step {}: {}", kBestFile, best.step, problem.what()));
  }
}

void Checkpoints::tell_notes() {
  for (const std::string& note : std::exchange(notes_, {})) log_.warn(note);
}

bool Checkpoints::is_overdue() const {
  const double now = steady_seconds(), since = now - last_begin_;
  return (first_by_ && now >= *first_by_) || (in_a_row_ > 0 && since >= kRetrySeconds) ||
         (policy_.every_seconds > 0 && since >= policy_.every_seconds);
}

RunState Checkpoints::full_state(const LoopState& loop) const {
  RunState state = facts_;
  state.loop = loop;
  state.samples = loop.step * settings_.batch.global_batch;
  state.epoch = static_cast<double>(state.samples) / static_cast<double>(settings_.samples_per_epoch);
  state.wall = {{"host", host_name()}, {"process", std::to_string(::getpid())}, {"time", utc_time()}};
  if (is_best(loop)) state.best = *loop.kept;
  return state;
}

void Checkpoints::save(const LoopState& loop) {
  wait();
  report();
  warn_if_disk_is_full();
  image_.take();
  RunState state = full_state(loop);
  saving_ = {loop.step, loop.validated};
  saving_best_ = state.best;
  last_begin_ = steady_seconds();
  first_by_.reset();
  is_reported_ = false;
  is_done_ = false;
  const auto work = [this, state = std::move(state)] {
    write(state);
    is_done_ = true;
  };
  if (image_memory(executable_.plan(), policy_) == StateImage::Memory::shared) return work();
  try {
    writer_ = std::thread(work);
  } catch (const std::system_error&) {  // no further thread is allowed: training waits instead
    work();
  }
}

/// In the background: touches only the image, the files, and members that are read after it is done.
void Checkpoints::write(const RunState& state) {
  const double began = steady_seconds();
  problem_ = nullptr;
  try {
    durable_();
    CheckpointWriter writer(root_, state.loop.step);
    add_tensors(writer, executable_.plan(), image_, state.about);
    const std::string text = to_json(state);
    writer.add(kStateFile, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
    require_held_();
    rotation_.make_room(state.loop.step);
    writer.commit();
    rotation_.add(state.loop.step);
    forget_difference(root_);
    if (state.best.step == state.loop.step || !is_best_kept_) keep_best(state.best);
    rotation_.remove_old(state.loop.step, state.best.step);
  } catch (...) {  // and allocates no memory, because there may be none
    problem_ = std::current_exception();
  }
  seconds_ = steady_seconds() - began;
}

void Checkpoints::wait() {
  if (writer_.joinable()) writer_.join();
}

void Checkpoints::report() {
  if (is_reported_ || !is_done_) return;
  wait();
  is_reported_ = true;
  longest_seconds_ = std::max(longest_seconds_, seconds_);
  tell_notes();
  if (problem_ == nullptr) {
    in_a_row_ = 0;
    saved_ = saving_;
    facts_.best = saving_best_;
    return;
  }
  ++failures_;
  ++in_a_row_;
  const std::string text = text_of_problem();
  log_.warn(fmt::format("saving step {} failed ({} in a row): {}", saving_.step, in_a_row_, text));
  if (in_a_row_ >= kMostFailures) {
    throw Error(ExitCode::io, fmt::format("{} saves in a row failed: {}; fix the cause and start the same "
                                          "command again to resume from the last checkpoint",
                                          in_a_row_, text));
  }
}

/// Throws the problem unless a later save may succeed, as after a full disk.
std::string Checkpoints::text_of_problem() const try {
  std::rethrow_exception(problem_);
} catch (const Error& error) {
  if (error.code() == ExitCode::internal) throw;
  return error.what();
} catch (const std::exception& error) {
  return failure_of(error).text;
}

void Checkpoints::save_now(const LoopState& state) {
  wait();
  report();
  while (saved_ != Moment{state.step, state.validated}) {
    save(state);
    wait();
    report();
  }
}

std::optional<LoopState> Checkpoints::restore() {
  wait();
  report();
  const std::optional<ResumePoint> point =
      newest_checkpoint(root_, [this](const std::string& note) { log_.warn(note); });
  if (!point) return std::nullopt;
  const std::vector<Difference> different =
      differences_from(*point, identity_with(facts_.mathematics), policy_.allow_changes);
  if (!different.empty()) {
    throw Error(
        ExitCode::recipe,
        fmt::format("cannot roll back: {} belongs to another run ({}); move it out of the run's directory",
                    one_line(point->checkpoint.string()), difference_text(different)));
  }
  go_on_from(*point);
  saved_ = {};  // the run returned to that step; its state there is not saved yet
  load_checkpoint(executable_, image_, point->checkpoint, from_ <= begun_at_ ? guards_ : Guards::same);
  return point->state.loop;
}

/// Warns once if there is less space than a few saves need.
void Checkpoints::warn_if_disk_is_full() {
  constexpr int64_t kSaves = 3;
  std::error_code error;
  const fs::space_info space = fs::space(root_.parent_path(), error);
  const int64_t needed = kSaves * checkpoint_bytes(executable_.plan());
  if (warned_ || error || static_cast<int64_t>(space.available) >= needed) return;
  warned_ = true;
  log_.warn(fmt::format("{}: the disk has {} free, {} saves need {}; free some space",
                        one_line(root_.string()), human_bytes(static_cast<int64_t>(space.available)), kSaves,
                        human_bytes(needed)));
}

}  // namespace trainer
