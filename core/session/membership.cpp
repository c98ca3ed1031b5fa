// SPDX-License-Identifier: Apache-2.0
#include "core/session/membership.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/engine/borders.h"
#include "core/engine/group_operations.h"
#include "core/engine/process_group_library.h"
#include "core/host/exit_report.h"
#include "core/host/process.h"
#include "core/ranks/launch.h"
#include "core/ranks/mpi_library.h"
#include "core/run/run_directory.h"
#include "core/run/run_state.h"
#include "core/session/device.h"
#include "core/session/socket_process_group.h"

namespace trainer {
namespace {

constexpr std::chrono::seconds kPeerExitTimeout(5);
/// More than rank 0 has for its peers.
constexpr std::chrono::seconds kRank0ExitTimeout(7);

/// What ranks need to join rank 0. MPI passes it on as "HOST PORT SECRET".
struct Rendezvous {
  Endpoint endpoint;
  Secret secret;
};

/// Ranks that mpirun has started can join through MPI.
bool is_of_mpi(const RankIdentity& identity) {
  return identity.source.starts_with("OMPI_");
}

constexpr const char* kOfEnvironment = "environment";

std::string to_text(const Rendezvous& rendezvous, bool with_secret) {
  return fmt::format("{} {} {}", rendezvous.endpoint.host, rendezvous.endpoint.port,
                     with_secret ? to_hex(rendezvous.secret) : kOfEnvironment);
}

Rendezvous parse_rendezvous(const std::string& text) {
  std::istringstream words(text);
  words.exceptions(std::ios::badbit);  // if memory runs out
  Rendezvous rendezvous;
  std::string secret;
  words >> rendezvous.endpoint.host >> rendezvous.endpoint.port >> secret;
  const std::optional<Secret> own = secret_of_environment();
  if (!own && secret == kOfEnvironment)
    throw Error(ExitCode::usage,
                "TRAINER_SECRET is set for rank 0, but not for this rank: set it for all, or for none");
  rendezvous.secret = own ? *own : from_hex(secret).value();
  return rendezvous;
}

/// The next line with one space between its words; empty at the end.
std::string next_line(std::istream& lines) {
  std::string line, text;
  std::getline(lines, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// The first line in which two texts differ, in each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_of_a(a), lines_of_b(b);
  while (lines_of_a || lines_of_b) {
    std::string of_a = next_line(lines_of_a), of_b = next_line(lines_of_b);
    if (of_a != of_b) return {std::move(of_a), std::move(of_b)};
  }
  return {};
}

}  // namespace

Membership::Membership(const RunSpec& spec, const RankIdentity& identity, bool trains) : identity_(identity) {
  const Recipe& recipe = spec.recipe();
  if (identity_.is_alone()) {
    group_ = std::make_unique<SingleProcess>();
    return;
  }
  const std::chrono::seconds timeout(recipe.parallelism.timeout.seconds);
  const bool by_mpi = is_of_mpi(identity_) || choose_device(recipe.device).type == "cpu";
  has_mpi_ = by_mpi;
  try {
    by_mpi ? join_by_mpi(timeout) : join_by_address(spec, timeout, trains);
  } catch (const std::exception& problem) {
    leave_with(problem);
    throw;
  }
}

PeerConnectionsRequest Membership::connections_request(const Secret& secret, std::chrono::seconds timeout) {
  return {.identity = identity_,
          .host = host_name(),
          .secret = secret,
          .timeout = timeout,
          .status =
              [this] {
                RankStatus status = group_->status();
                status.bytes = resident_bytes();
                status.gpu = gpu_;
                return status;
              },
          .on_lost = [this](ExitCode code, const std::string& why) { on_lost(code, why); },
          .on_line = [this](int64_t rank, const std::string& line) { logs_.add(rank, line); }};
}

/// MPI passes on the address of rank 0, and the secret if the environment has none.
void Membership::join_by_mpi(std::chrono::seconds timeout) {
  const MpiLibrary library = open_mpi_library();
  const std::string self = fmt::format("rank {} on {}", identity_.rank, host_name());
  mpi_exit_.emplace(ExitCode::no_device,
                    fmt::format("{}: MPI ({}) has ended the process at its start, for the reason above; "
                                "start ranks on CPUs with its own mpirun or mpiexec, or with srun and a "
                                "--mpi of `srun --mpi=list` that it knows",
                                self, library.path));
  group_ = load_process_group(
      library.plugin(), {.rank = identity_.rank,
                         .ranks = identity_.ranks,
                         .timeout = 3 * timeout,
                         .on_lost = [this](const std::string& text) { leave(ExitCode::peer_lost, text); }});
  mpi_exit_.emplace(
      ExitCode::peer_lost,
      fmt::format("{}: a library, perhaps MPI ({}), has ended the process; start the same command again",
                  self, library.path));
  std::optional<Listener> listener;
  const std::string text = broadcast_from_rank_0(*group_, [&] {
    listener.emplace(listening_address(identity_), 0);
    const std::optional<Secret> given = secret_of_environment();
    return to_text({listener->endpoint(), given ? *given : random_bytes()}, !given);
  });
  const Rendezvous rendezvous = parse_rendezvous(text);
  const PeerConnectionsRequest request = connections_request(rendezvous.secret, timeout);
  peers_ = listener ? std::make_unique<PeerConnections>(request, std::move(*listener))
                    : std::make_unique<PeerConnections>(request, rendezvous.endpoint);
  open_peers_ = peers_.get();
  if (is_rank_0()) report_rendezvous_to_launcher();
}

/// The launcher gives the address of rank 0; the secret is in the environment, or in the run's directory.
void Membership::join_by_address(const RunSpec& spec, std::chrono::seconds timeout, bool trains) {
  const Recipe& recipe = spec.recipe();
  auto group = std::make_unique<SocketProcessGroup>(identity_);
  SocketProcessGroup& over_sockets = *group;
  group_ = std::move(group);
  const Endpoint rank_0 = rendezvous_endpoint(identity_);
  std::optional<Secret> secret = secret_of_environment();
  if (!secret && !trains) {
    throw Error(ExitCode::usage,
                "ranks that do not train, and are not started by mpirun, need a common TRAINER_SECRET; set "
                "it to 32 random hexadecimal digits (openssl rand -hex 16)");
  }
  if (!secret) {
    const std::filesystem::path directory = recipe.output_directory();
    // Another run's directory, or a finished run, gets no file. Every rank finds that out by itself.
    const auto state = RunDirectory::look(directory, recipe.identity(), recipe.run.allow_changes);
    is_finished_ = state == RunDirectory::State::finished;
    if (is_finished_) return;
    if (is_rank_0()) std::filesystem::create_directories(directory);
    secret = secret_of_file(directory / kSecretFile, is_rank_0(), 3 * timeout);
  }
  const PeerConnectionsRequest request = connections_request(*secret, timeout);
  peers_ = is_rank_0() ? std::make_unique<PeerConnections>(request, Listener(rank_0.host, rank_0.port))
                       : std::make_unique<PeerConnections>(request, rank_0);
  over_sockets.use(*peers_);
  open_peers_ = peers_.get();
}

std::string Membership::ask(int64_t rank, const std::string& request) const {
  std::string answer = peers_->ask(rank, request);
  const Activity activity = group_->status().activity;
  if (activity != Activity::awaiting_data && activity != Activity::computing) group_->note_progress();
  return answer;
}

void Membership::await_all() const {
  if (peers_) peers_->wait_all_gather(peers_->start_all_gather(""));
}

void Membership::answer_with(std::function<std::string(const std::string&)> answer) const {
  peers_->answer_with(std::move(answer));
}

void Membership::require_device(const std::string& type, const std::string& of_rank_0) const {
  if (!has_peers()) return;
  const auto refuse = [&](const std::string& text) {
    throw Error(ExitCode::no_device, fmt::format("rank {} on {} {}", identity_.rank, host_name(), text));
  };
  if (type != of_rank_0)
    refuse(fmt::format("would train on {}, but rank 0 trains on {}; set device.type", type, of_rank_0));
  if (type == "cpu" && !has_mpi_)
    refuse(
        "was not started by MPI, which adds up the steps of CPUs; set device.type=cpu, or start with mpirun");
  if (type == "cuda") gpu_ = local_rank();
}

/// The ranks watch each other until all have reached the end. The group outlives the connections, which ask
/// it for this rank's status.
Membership::~Membership() {
  group_->shut_down();
  open_peers_ = nullptr;
  peers_.reset();
}

/// A lost rank ends this one. A rank that has failed has voted so: this one then ends by itself and writes
/// its files.
void Membership::on_lost(ExitCode code, const std::string& text) {
  if (code != ExitCode::peer_lost) {
    reason_.set_value(text);
    std::this_thread::sleep_for(kPeerExitTimeout);
  }
  leave(code, text);
}

/// Ends the process at once, and takes the other ranks along.
void Membership::leave(ExitCode code, const std::string& text) const {
  if (leaves_.exchange(true)) std::this_thread::sleep_for(std::chrono::hours(1));  // another thread does
  std::string reason = text;
  if (PeerConnections* peers = open_peers_; peers != nullptr) {
    const std::string straggler = peers->straggler();
    const bool is_named = text.starts_with("rank ") || text.find("; it waits for ") != std::string::npos;
    if (code == ExitCode::peer_lost && !is_named && !straggler.empty())
      reason += "; it waits for " + straggler;
    peers->announce_exit(code, reason);
  }
  const std::string self = fmt::format("rank {} on {}", identity_.rank, host_name());
  if (!reason.starts_with(self)) reason += fmt::format("; {} leaves", self);
  const bool has_begun = group_ && group_->status().step > 0;
  if (code == ExitCode::peer_lost && has_begun) reason += ", and the run can resume from its checkpoint";
  const std::string line = fmt::format("trainer: error: {}\n", reason);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  // A launcher kills the others once one has failed; rank 0 still writes the end of the run.
  if (PeerConnections* peers = open_peers_; peers != nullptr && !is_rank_0() && code != ExitCode::peer_lost)
    peers->await_exit_of_rank_0(kRank0ExitTimeout);
  report_exit_code(static_cast<int>(code));
  ::_exit(static_cast<int>(code));
}

RunSpec launched_spec(std::shared_ptr<const Recipe> recipe, const RankIdentity& identity) {
  const std::optional<AutoCount>& asked = recipe->parallelism.data;
  const int64_t tensor = recipe->parallelism.tensor, pipeline = recipe->parallelism.pipeline;
  if (asked && asked->count && *asked->count * tensor * pipeline != identity.ranks) {
    fail_at(recipe->origin_of("parallelism.data"),
            fmt::format("is {}{}{}, but the launcher started {} ranks ({}); write auto, or start as many",
                        *asked->count, tensor > 1 ? fmt::format(", times parallelism.tensor {}", tensor) : "",
                        pipeline > 1 ? fmt::format(", times parallelism.pipeline {}", pipeline) : "",
                        identity.ranks, identity.source));
  }
  return {std::move(recipe), {identity.rank, identity.ranks}, identity.local_ranks};
}

RunSpec planned_spec(std::shared_ptr<const Recipe> recipe) {
  const std::optional<AutoCount>& asked = recipe->parallelism.data;
  const int64_t ranks =
      (asked ? asked->count.value_or(1) : 1) * recipe->parallelism.tensor * recipe->parallelism.pipeline;
  return {std::move(recipe), {.rank = 0, .ranks = ranks}, ranks};
}

void require_one_process(const std::string& what) {
  const RankIdentity identity = launched_as();
  if (identity.is_alone()) return;
  throw Error(ExitCode::usage,
              fmt::format("{} is done by one process, but the launcher started {} ({}); start "
                          "it without the launcher",
                          what, identity.ranks, identity.source));
}

void Membership::leave_with(const std::exception& problem) const {
  if (!has_peers()) return;
  const Failure failure = failure_of(problem);
  leave(failure.code, failure.text);
}

Failure Membership::failure_of(const std::exception& problem) const {
  Failure failure = trainer::failure_of(problem);
  if (!has_peers()) return failure;
  const bool is_of_other = dynamic_cast<const PeerError*>(&problem) != nullptr;
  if (is_of_other && reason_of_other_.wait_for(kPeerExitTimeout) == std::future_status::ready)
    return {failure.code, reason_of_other_.get()};
  const auto self = fmt::format("rank {} on {}", identity_.rank, host_name());
  if (!failure.text.starts_with(self)) failure.text = self + ": " + failure.text;
  return failure;
}

std::string Membership::prefix() const {
  return is_rank_0() ? "" : fmt::format("[rank {}, {}] ", identity_.rank, host_name());
}

void Membership::pass_on(Log& log) const {
  if (peers_ && !is_rank_0()) log.pass_on([this](const std::string& line) { peers_->send_line(line); });
}

std::vector<RankState> Membership::ranks() const {
  std::vector<RankState> all;
  if (!peers_) return all;
  for (const auto& [host, status] : peers_->overview()) {
    all.push_back({.host = host,
                   .activity = name_of(status.activity),
                   .step = status.step,
                   .waits = status.waits,
                   .bytes = status.bytes});
    if (status.gpu >= 0) all.back().gpu = status.gpu;
  }
  return all;
}

void Membership::require_same_plan(const Plan& plan, const Program& program,
                                   std::map<std::string, std::string> facts) const {
  if (!has_peers()) return;
  // Plans of other stages differ; their ranks have made them of the same network.
  const std::string own =
      fmt::format("network {:016x}\n{}", program.whole ? program.whole->checksum : 0, to_text(plan));
  std::string first;
  for (int64_t stage = 0; stage < program.mesh.stages; ++stage) {
    std::string text = own;
    broadcast_text(*group_, text, stage * program.mesh.ranks_of_stage());
    if (stage == program.stage) first = text;
    if (!text.starts_with(own.substr(0, own.find('\n')))) first = text;
  }
  const std::string facts_of_first =
      broadcast_from_rank_0(*group_, [&] { return to_json(RunState{.facts = facts}); });
  run_on_all(*group_, [&] {
    if (first == own) return;
    std::string different;
    for (const auto& [name, there] : parse_run_state(facts_of_first, "rank 0's facts").facts) {
      if (const std::string& here = facts[name]; here != there)
        different += fmt::format("; {} is {} here and {} there", name, here, there);
    }
    const auto [here, there] = first_difference(own, first);
    different += fmt::format(": '{}' here and '{}' there", here, there);
    throw Error(ExitCode::recipe,
                fmt::format("rank {} on {} has another plan than {}{}; start the same program on hosts of "
                            "one kind, with the same device.threads, or set device.instructions to what all "
                            "processors have",
                            identity_.rank, host_name(), program.mesh.stages > 1 ? "other ranks" : "rank 0",
                            different));
  });
}

void Membership::require_same_borders(const Plan& plan, const Mesh& mesh) const {
  if (mesh.stages == 1) return;
  const std::vector<std::string> all = all_gather(*group_, messages_of(plan));
  run_on_all(*group_, [&] {
    std::vector<std::string> along;
    for (int64_t stage = 0; stage < mesh.stages; ++stage)
      along.push_back(all[static_cast<size_t>(mesh.peer(Axis::pipeline, group_->rank(), stage))]);
    const auto difference = border_difference(along);
    if (!difference) return;
    throw Error(
        ExitCode::recipe,
        fmt::format("the stages of the pipeline have other plans: {}; start the same program on hosts of "
                    "one kind",
                    *difference));
  });
}

void Membership::require_same_samples(const DataSource& own, const std::string& split) const {
  if (!has_peers()) return;
  const std::string text =
      broadcast_from_rank_0(*group_, [&] { return to_json(RunState{.data = own.fingerprint()}); });
  run_on_all(*group_, [&] {
    if (is_rank_0()) return;
    const Fingerprint first = parse_run_state(text, "rank 0's samples").data;
    const auto difference = fingerprint_difference(first, own.fingerprint());
    if (!difference) return;
    throw Error(ExitCode::recipe, fmt::format("rank {} on {} has other samples than rank 0: data.{}: {}",
                                              identity_.rank, host_name(), split, *difference));
  });
}

}  // namespace trainer
