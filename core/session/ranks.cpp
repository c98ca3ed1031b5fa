// SPDX-License-Identifier: Apache-2.0
#include "core/session/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/engine/communicator_library.h"
#include "core/engine/together.h"
#include "core/host/process.h"
#include "core/run/run_state.h"

namespace trainer {
namespace {

constexpr std::chrono::seconds kPatienceWithPeer(5);

/// Nearest numbers of samples that so many ranks can share.
std::string nearest_multiples(int64_t samples, int64_t ranks) {
  const int64_t below = samples / ranks * ranks, above = below + ranks;
  return below == 0 ? std::to_string(above) : fmt::format("{} or {}", below, above);
}

void require_agreement(const Recipe& recipe, const Identity& identity) {
  const std::optional<AutoCount>& asked = recipe.parallelism.data;
  if (!asked || !asked->count || *asked->count == identity.ranks) return;
  fail_at(recipe.origin_of("parallelism.data"),
          fmt::format("is {}, but the launcher started {} ranks ({}); write auto, or start as many",
                      *asked->count, identity.ranks, identity.source));
}

void require_division(const Recipe& recipe, int64_t ranks) {
  const TrainingSection& training = recipe.training;
  const int64_t all = training.global_batch_size;
  if (all % ranks != 0) {
    fail_at(recipe.origin_of("training.global_batch_size"),
            fmt::format("{} samples cannot be shared by {} ranks evenly; write {}", all, ranks,
                        nearest_multiples(all, ranks)));
  }
  const auto& given = training.micro_batch_size;
  if (const int64_t rows = given ? given->count.value_or(1) : 1; all % (rows * ranks) != 0) {
    fail_at(
        recipe.origin_of("training.micro_batch_size"),
        fmt::format("{} ranks with micro-batches of {} cannot share global_batch_size {} evenly; each has {} "
                    "samples of a step",
                    ranks, rows, all, all / ranks));
  }
}

/// Ends the process at once: the other ranks, and what they would have brought, are gone.
[[noreturn]] void leave(const Identity& identity, const std::string& text) {
  const std::string line = fmt::format(
      "error: rank {} of {} on {}: {}; this rank leaves, and the run can resume from its checkpoint\n",
      identity.rank, identity.ranks, host_name(), text);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  ::_exit(static_cast<int>(ExitCode::peer_lost));
}

std::unique_ptr<Communicator> join(const Recipe& recipe, const Identity& identity) {
  if (identity.is_alone()) return std::make_unique<OneRank>();
  return load_communicator("mpi",
                           {.rank = identity.rank,
                            .ranks = identity.ranks,
                            .deadline = std::chrono::seconds(recipe.parallelism.deadline.seconds),
                            .on_lost = [identity](const std::string& text) { leave(identity, text); }});
}

}  // namespace

Ranks::Ranks(Recipe& recipe) : identity_(launched_as()) {
  require_agreement(recipe, identity_);
  if (!identity_.is_alone()) {
    recipe.training.share = {identity_.rank, identity_.ranks};
    recipe.parallelism.here = identity_.local_ranks;
    require_division(recipe, identity_.ranks);
  }
  communicator_ = join(recipe, identity_);
}

int64_t Ranks::threads() const {
  return std::max<int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN) / identity_.local_ranks);
}

void plan_ranks(Recipe& recipe) {
  const std::optional<AutoCount>& asked = recipe.parallelism.data;
  if (!asked || !asked->count) return;
  recipe.training.share.ranks = *asked->count;
  require_division(recipe, *asked->count);
}

int64_t ranks_to_start(const Recipe& recipe) {
  const std::optional<AutoCount>& asked = recipe.parallelism.data;
  if (!asked || !asked->count || !launched_as().is_alone()) return 1;
  require_division(recipe, *asked->count);
  return *asked->count;
}

void require_one_process(const std::string& what) {
  const Identity identity = launched_as();
  if (identity.is_alone()) return;
  throw Error(ExitCode::usage, fmt::format("{} is done by one process, but the launcher started {} ({})",
                                           what, identity.ranks, identity.source));
}

void Ranks::leave_with(const std::exception& problem) const {
  if (!are_several()) return;
  // The rank that has failed prints its message, and its end is that of all of them.
  if (dynamic_cast<const PeerError*>(&problem) != nullptr) std::this_thread::sleep_for(kPatienceWithPeer);
  const Failure failure = failure_of(problem);
  const std::string line = fmt::format("trainer: error: {}{}\n", prefix(), failure.text);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  ::_exit(static_cast<int>(failure.code));
}

std::string Ranks::prefix() const {
  return is_first() ? "" : fmt::format("rank {}: ", communicator_->rank());
}

void Ranks::share_tensors(Executable& executable) const {
  if (are_several()) communicator_->broadcast(executable.persistent());
}

void Ranks::require_same(const Recipe& recipe, const Plan& plan) const {
  if (!are_several()) return;
  const auto sum_of = [](const std::string& text) {
    return fmt::format("{:016x}", checksum(std::as_bytes(std::span(text.data(), text.size()))));
  };
  const std::string own = recipe.identity().mathematics, own_plan = sum_of(to_text(plan));
  const std::string first = from_first(*communicator_, [&] { return own_plan + own; });
  together(*communicator_, [&] {
    const std::string what = first.substr(own_plan.size()) != own           ? "recipe"
                             : first.substr(0, own_plan.size()) != own_plan ? "plan"
                                                                            : "";
    if (what.empty()) return;
    throw Error(ExitCode::recipe,
                fmt::format("rank {} on {} has another {} than rank 0: start the same program with the same "
                            "recipe on hosts of one kind",
                            identity_.rank, host_name(), what));
  });
}

void SharedCheckpoints::save(const LoopState& state) {
  if (own_ != nullptr) own_->save(state);
}

void SharedCheckpoints::report() {
  if (own_ != nullptr) own_->report();
}

void SharedCheckpoints::save_now(const LoopState& state) {
  if (own_ != nullptr) own_->save_now(state);
}

std::optional<LoopState> SharedCheckpoints::restore() {
  if (!ranks_.are_several()) return own_->restore();
  std::optional<LoopState> there;
  const std::string text = from_first(ranks_.communicator(), [&] {
    there = own_->restore();
    return there ? to_json(RunState{.loop = *there}) : "";
  });
  if (text.empty()) return std::nullopt;
  ranks_.share_tensors(executable_);
  return parse_run_state(text, "what rank 0 has restored").loop;
}

}  // namespace trainer
