// SPDX-License-Identifier: Apache-2.0
#include "core/session/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/engine/communicator_library.h"
#include "core/engine/shared_state.h"
#include "core/engine/together.h"
#include "core/host/process.h"
#include "core/ranks/launch.h"
#include "core/run/run_directory.h"
#include "core/run/run_state.h"
#include "core/session/control_communicator.h"
#include "core/session/device.h"

namespace trainer {
namespace {

constexpr std::chrono::seconds kPatienceWithPeer(5);
/// More than rank 0 has for its peers.
constexpr std::chrono::seconds kPatienceWithFirst(7);

/// Where rank 0 listens and what the ranks have to know, as MPI passes it on: "HOST PORT SECRET".
struct Meeting {
  Endpoint endpoint;
  Secret secret;
};

/// Whoever mpirun has started can meet through it.
bool is_of_mpi(const Identity& identity) {
  return identity.source.starts_with("OMPI_");
}

constexpr const char* kOfEnvironment = "environment";

std::string to_text(const Meeting& meeting, bool with_secret) {
  return fmt::format("{} {} {}", meeting.endpoint.host, meeting.endpoint.port,
                     with_secret ? to_hex(meeting.secret) : kOfEnvironment);
}

Meeting parse_meeting(const std::string& text) {
  std::istringstream words(text);
  words.exceptions(std::ios::badbit);  // where there is no memory
  Meeting meeting;
  std::string secret;
  words >> meeting.endpoint.host >> meeting.endpoint.port >> secret;
  const std::optional<Secret> own = secret_of_environment();
  if (!own && secret == kOfEnvironment)
    throw Error(ExitCode::usage,
                "TRAINER_SECRET is set for rank 0, but not for this rank: set it for all, or for none");
  meeting.secret = own ? *own : from_hex(secret).value();
  return meeting;
}

}  // namespace

Ranks::Ranks(const RunSpec& spec, const Identity& identity) : identity_(identity) {
  const Recipe& recipe = spec.recipe();
  if (identity_.is_alone()) {
    communicator_ = std::make_unique<OneRank>();
    return;
  }
  const std::chrono::seconds timeout(recipe.parallelism.timeout.seconds);
  const bool by_mpi = is_of_mpi(identity_) || choose_device(recipe.device).type == "cpu";
  adds_up_on_cpus_ = by_mpi;
  try {
    by_mpi ? join_by_mpi(timeout) : join_by_address(spec, timeout);
  } catch (const std::exception& problem) {
    leave_with(problem);
    throw;
  }
}

ControlRequest Ranks::control_request(const Secret& secret, std::chrono::seconds timeout) {
  return {.identity = identity_,
          .host = host_name(),
          .secret = secret,
          .timeout = timeout,
          .whereabouts = [this] { return communicator_->whereabouts(); },
          .on_lost = [this](ExitCode code, const std::string& why) { on_lost(code, why); }};
}

/// MPI passes on where rank 0 listens, and the secret where the environment has none.
void Ranks::join_by_mpi(std::chrono::seconds timeout) {
  communicator_ = load_communicator(
      "mpi", {.rank = identity_.rank,
              .ranks = identity_.ranks,
              .patience = 3 * timeout,
              .on_lost = [this](const std::string& text) { leave(ExitCode::peer_lost, text); }});
  std::optional<Listener> listener;
  const std::string text = from_first(*communicator_, [&] {
    listener.emplace(address_for(identity_), 0);
    const std::optional<Secret> given = secret_of_environment();
    return to_text({listener->endpoint(), given ? *given : random_bytes()}, !given);
  });
  const Meeting meeting = parse_meeting(text);
  const ControlRequest request = control_request(meeting.secret, timeout);
  control_ = listener ? std::make_unique<Control>(request, std::move(*listener))
                      : std::make_unique<Control>(request, meeting.endpoint);
  watched_ = control_.get();
  if (is_first()) report_meeting_to_launcher();
}

/// The launcher gives the address of rank 0; the secret is in the environment, or in the run's directory.
void Ranks::join_by_address(const RunSpec& spec, std::chrono::seconds timeout) {
  const Recipe& recipe = spec.recipe();
  auto communicator = std::make_unique<ControlCommunicator>(identity_);
  ControlCommunicator& over_control = *communicator;
  communicator_ = std::move(communicator);
  const Endpoint first = meeting_place(identity_);
  std::optional<Secret> secret = secret_of_environment();
  if (!secret) {
    const std::filesystem::path directory = recipe.output_directory();
    // What is not this run's, or finished, gets no file; and every rank sees that by itself.
    const auto state = RunDirectory::look(directory, recipe.identity(), recipe.run.allow_changes);
    are_finished_ = state == RunDirectory::State::finished;
    if (are_finished_) return;
    if (is_first()) std::filesystem::create_directories(directory);
    secret = secret_of_file(directory / kSecretFile, is_first(), 3 * timeout);
  }
  const ControlRequest request = control_request(*secret, timeout);
  control_ = is_first() ? std::make_unique<Control>(request, Listener(first.host, first.port))
                        : std::make_unique<Control>(request, first);
  over_control.use(*control_);
  watched_ = control_.get();
}

void Ranks::require_engine(const std::string& device, const std::string& first) const {
  if (!are_several()) return;
  const auto refuse = [&](const std::string& text) {
    throw Error(ExitCode::no_device, fmt::format("rank {} on {} {}", identity_.rank, host_name(), text));
  };
  if (device != first)
    refuse(fmt::format("would train on {}, but rank 0 trains on {}; set device.type", device, first));
  if (device == "cpu" && !adds_up_on_cpus_)
    refuse(
        "was not started by MPI, which adds up the steps of CPUs; set device.type=cpu, or start with mpirun");
}

/// The ranks watch each other until all have come to the end. The communicator outlasts the control
/// connections, which ask it where this rank is.
Ranks::~Ranks() {
  communicator_->end();
  watched_ = nullptr;
  control_.reset();
}

/// A lost rank ends this one. One that has failed has voted so: this one then comes to its end by itself, and
/// writes what it can.
void Ranks::on_lost(ExitCode code, const std::string& text) {
  if (code != ExitCode::peer_lost) {
    reason_.set_value(text);
    std::this_thread::sleep_for(kPatienceWithPeer);
  }
  leave(code, text);
}

/// Ends the process at once, and takes the other ranks along.
void Ranks::leave(ExitCode code, const std::string& text) const {
  if (leaves_.exchange(true)) std::this_thread::sleep_for(std::chrono::hours(1));  // another thread does
  std::string reason = text;
  if (Control* control = watched_; control != nullptr) {
    const std::string laggard = control->laggard();
    const bool is_named = text.starts_with("rank ") || text.find("; it waits for ") != std::string::npos;
    if (code == ExitCode::peer_lost && !is_named && !laggard.empty()) reason += "; it waits for " + laggard;
    control->farewell(code, reason);
  }
  const std::string self = fmt::format("rank {} on {}", identity_.rank, host_name());
  if (!reason.starts_with(self)) reason += fmt::format("; {} leaves", self);
  const bool has_begun = communicator_ && communicator_->whereabouts().step > 0;
  if (code == ExitCode::peer_lost && has_begun) reason += ", and the run can resume from its checkpoint";
  const std::string line = fmt::format("trainer: error: {}\n", reason);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  // A launcher kills the others once one has failed; rank 0 still writes what has become of the run.
  if (Control* control = watched_; control != nullptr && !is_first() && code != ExitCode::peer_lost)
    control->await_end_of_first(kPatienceWithFirst);
  ::_exit(static_cast<int>(code));
}

int64_t Ranks::threads() const {
  return std::max<int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN) / identity_.local_ranks);
}

RunSpec launched_spec(std::shared_ptr<const Recipe> recipe, const Identity& identity) {
  const std::optional<AutoCount>& asked = recipe->parallelism.data;
  if (asked && asked->count && *asked->count != identity.ranks) {
    fail_at(recipe->origin_of("parallelism.data"),
            fmt::format("is {}, but the launcher started {} ranks ({}); write auto, or start as many",
                        *asked->count, identity.ranks, identity.source));
  }
  return {std::move(recipe), {identity.rank, identity.ranks}, identity.local_ranks};
}

RunSpec planned_spec(std::shared_ptr<const Recipe> recipe) {
  const std::optional<AutoCount>& asked = recipe->parallelism.data;
  const int64_t ranks = asked ? asked->count.value_or(1) : 1;
  return {std::move(recipe), {.rank = 0, .ranks = ranks}};
}

void require_one_process(const std::string& what) {
  const Identity identity = launched_as();
  if (identity.is_alone()) return;
  throw Error(ExitCode::usage, fmt::format("{} is done by one process, but the launcher started {} ({})",
                                           what, identity.ranks, identity.source));
}

void Ranks::leave_with(const std::exception& problem) const {
  if (!are_several()) return;
  const Failure failure = failure_of(problem);
  leave(failure.code, failure.text);
}

Failure Ranks::failure_of(const std::exception& problem) const {
  Failure failure = trainer::failure_of(problem);
  if (!are_several()) return failure;
  const bool is_of_other = dynamic_cast<const PeerError*>(&problem) != nullptr;
  if (is_of_other && reason_of_other_.wait_for(kPatienceWithPeer) == std::future_status::ready)
    return {failure.code, reason_of_other_.get()};
  const auto self = fmt::format("rank {} on {}", identity_.rank, host_name());
  if (!failure.text.starts_with(self)) failure.text = self + ": " + failure.text;
  return failure;
}

std::string Ranks::prefix() const {
  return is_first() ? "" : fmt::format("rank {}: ", identity_.rank);
}

void Ranks::require_same_plan(const Plan& plan, std::map<std::string, std::string> facts) const {
  if (!are_several()) return;
  const std::string text = to_text(plan);
  const auto sum = fmt::format("{:016x}", checksum(std::as_bytes(std::span(text.data(), text.size()))));
  const std::string own = to_json(RunState{.facts = facts});
  const std::string first = from_first(*communicator_, [&] { return sum + own; });
  together(*communicator_, [&] {
    if (first.substr(0, sum.size()) == sum) return;
    std::string different;
    for (const auto& [name, there] : parse_run_state(first.substr(sum.size()), "rank 0's facts").facts) {
      if (const std::string& here = facts[name]; here != there)
        different += fmt::format("; {} is {} here and {} there", name, here, there);
    }
    throw Error(
        ExitCode::recipe,
        fmt::format("rank {} on {} has another plan than rank 0{}; start the same program on hosts of "
                    "one kind, with the same device.threads",
                    identity_.rank, host_name(), different));
  });
}

void Ranks::require_same_samples(const DataSource& own, const std::string& split) const {
  if (!are_several()) return;
  const std::string text =
      from_first(*communicator_, [&] { return to_json(RunState{.data = own.fingerprint()}); });
  together(*communicator_, [&] {
    if (is_first()) return;
    const Fingerprint first = parse_run_state(text, "rank 0's samples").data;
    const auto difference = fingerprint_difference(first, own.fingerprint());
    if (!difference) return;
    throw Error(ExitCode::recipe, fmt::format("rank {} on {} has other samples than rank 0: data.{}: {}",
                                              identity_.rank, host_name(), split, *difference));
  });
}

/// Gives rank 0 what the others hold alone. A save before may still read what they had then.
void SharedCheckpoints::gather() {
  if (own_ != nullptr) own_->wait();
  gather_state(ranks_.communicator(), executable_);
}

void SharedCheckpoints::save(const LoopState& state) {
  gather();
  if (own_ != nullptr) own_->save(state);
}

void SharedCheckpoints::report() {
  if (own_ != nullptr) own_->report();
}

void SharedCheckpoints::save_now(const LoopState& state) {
  gather();
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
  share_state(ranks_.communicator(), executable_);
  return parse_run_state(text, "what rank 0 has restored").loop;
}

}  // namespace trainer
