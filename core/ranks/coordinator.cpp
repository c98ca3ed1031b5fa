// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "core/ranks/participants.h"

namespace trainer {
namespace {

/// A rank proves itself within milliseconds; a connection that does not is closed.
constexpr std::chrono::seconds kPendingTimeout(5);
constexpr size_t kMaxPending = 64;
constexpr auto kSilent = 4 * kHeartbeatInterval;

double seconds(Connection::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::vector<std::string> Participant::take(int64_t round) {
  std::vector<std::string> texts = std::move(gathered_.at(round));
  gathered_.erase(round);
  return texts;
}

std::string rank_text(size_t rank, const std::string& host) {
  return fmt::format("rank {} on {}", rank, host);
}

std::string status_text(const RankStatus& status) {
  return fmt::format(", at step {}: {}{}", status.step, name_of(status.activity),
                     status.waits ? ", waiting for other ranks" : "");
}

std::string encode_status(const RankStatus& status) {
  return BodyWriter()
      .number(static_cast<uint64_t>(status.step))
      .number(static_cast<uint64_t>(status.activity))
      .number(status.waits ? 1 : 0)
      .number(static_cast<uint64_t>(status.changes))
      .number(static_cast<uint64_t>(status.first_step))
      .number(static_cast<uint64_t>(status.bytes))
      .number(static_cast<uint64_t>(status.gpu + 1))
      .take();
}

RankStatus decode_status(BodyReader& body) {
  RankStatus status{.step = static_cast<int64_t>(body.number())};
  status.activity = static_cast<Activity>(body.below(kActivityNames.size()));
  status.waits = body.below(2) == 1;
  status.changes = static_cast<int64_t>(body.number());
  status.first_step = static_cast<int64_t>(body.number());
  status.bytes = static_cast<int64_t>(body.number());
  status.gpu = static_cast<int64_t>(body.number()) - 1;
  return status;
}

Coordinator::Coordinator(const PeerConnectionsRequest& request, Listener listener)
    : request_(request), listener_(std::move(listener)), peers_(static_cast<size_t>(request.identity.ranks)) {
  peers_[0].host = request.host;
}

bool Coordinator::is_complete() const {
  return std::all_of(peers_.begin() + 1, peers_.end(),
                     [](const Peer& peer) { return peer.connection.has_value(); });
}

std::string Coordinator::missing() const {
  std::vector<size_t> missing;
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    if (!peers_[rank].connection) missing.push_back(rank);
  }
  return fmt::format("{} {}", missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "));
}

std::vector<Connection*> Coordinator::connections() {
  std::vector<Connection*> connections = peers();
  for (Pending& each : pending_) connections.push_back(&each.connection);
  return connections;
}

std::vector<Connection*> Coordinator::peers() {
  std::vector<Connection*> connections;
  for (Peer& peer : peers_) {
    if (peer.connection && !peer.closed) connections.push_back(&*peer.connection);
  }
  return connections;
}

void Coordinator::discount_silence(Connection::Clock::duration gap) {
  for (Peer& peer : peers_) {
    if (peer.connection) peer.connection->discount_silence(gap);
    peer.changed += gap;
  }
}

/// The oldest pending connection makes room, so that idle ones keep no rank out.
void Coordinator::accept_connection() {
  FileDescriptor socket = listener_.accept();
  is_full_ = socket.get() < 0;
  if (is_full_) return;
  if (pending_.size() == kMaxPending) pending_.pop_front();
  pending_.push_back({Connection(std::move(socket)),
                      HandshakeServer(request_.secret, request_.identity.ranks), Connection::Clock::now()});
  pending_.back().connection.send(pending_.back().handshake.hello());
}

void Coordinator::read(Connection& connection) {
  const auto place =
      std::ranges::find_if(pending_, [&](const Pending& each) { return &each.connection == &connection; });
  if (place != pending_.end() && !may_still_join(*place)) pending_.erase(place);
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    if (peers_[rank].connection && &*peers_[rank].connection == &connection) return read_peer(rank);
  }
}

/// Whether the connection may still ask to join. Bytes that no rank sends are ignored: they are not of this
/// run.
bool Coordinator::may_still_join(Pending& pending) try {
  const bool is_open = pending.connection.receive();
  const std::optional<Frame> frame = pending.connection.next();
  if (frame) admit(pending, *frame);
  return is_open && !frame;
} catch (const BadFrame&) {
  return false;
}

void Coordinator::admit(Pending& pending, const Frame& join) try {
  const HandshakeServer::Applicant applicant = pending.handshake.admit(join);
  const auto rank = static_cast<size_t>(applicant.rank);
  Peer& peer = peers_.at(rank);
  if (peer.connection) throw Refused(fmt::format("{} has joined already", name(rank)));
  peer.host = applicant.host;
  peer.connection.emplace(std::move(pending.connection));
  peer.connection->trust();
  peer.connection->send(pending.handshake.welcome(applicant, request_.host));
  if (is_complete()) send_to_all(encode(FrameKind::ready, ""));
} catch (const Refused& problem) {
  pending.connection.send(encode(FrameKind::refuse, BodyWriter().text(problem.what()).take()));
}

void Coordinator::read_peer(size_t rank) try {
  Peer& peer = peers_[rank];
  if (!peer.connection->receive()) peer.closed = Connection::Clock::now();
  while (const std::optional<Frame> frame = peer.connection->next()) handle(rank, *frame);
} catch (const BadFrame& problem) {
  lose(ExitCode::peer_lost, fmt::format("{} has sent {}", name(rank), problem.what()));
}

void Coordinator::handle(size_t rank, const Frame& frame) {
  Peer& peer = peers_[rank];
  BodyReader body(frame.body);
  if (frame.kind == FrameKind::heartbeat) {
    update(peer, decode_status(body));
  } else if (frame.kind == FrameKind::contribution) {
    const auto round = static_cast<int64_t>(body.number());
    collect(rank, round, body.text());
  } else if (frame.kind == FrameKind::exiting) {
    const auto code = static_cast<ExitCode>(body.below(256));
    peer.has_left = true;
    if (const std::string reason = body.text(); code != ExitCode::done) lose(code, reason);
  } else if (frame.kind == FrameKind::line) {
    const std::string text = body.text();
    if (request_.on_line) request_.on_line(static_cast<int64_t>(rank), text);
  } else if (frame.kind == FrameKind::answer && rank == asked_) {
    answer_ = body.text();
    asked_ = 0;
  } else {
    throw BadFrame("a frame that only rank 0 sends");
  }
  body.end();
}

void Coordinator::collect(size_t rank, int64_t round, const std::string& text) {
  std::map<size_t, std::string>& texts = contributions_[round];
  texts[rank] = text;
  if (texts.size() < peers_.size()) return;
  BodyWriter body;
  body.number(static_cast<uint64_t>(round));
  for (const auto& [from, each] : texts) {
    body.text(each);
    gathered_[round].push_back(each);
  }
  contributions_.erase(round);
  send_to_all(encode(FrameKind::gathered, body.take()));
}

void Coordinator::ask(int64_t rank, const std::string& request) {
  Peer& peer = peers_.at(static_cast<size_t>(rank));
  if (!peer.connection) throw std::logic_error("rank 0 asks a rank that it is not connected to");
  asked_ = static_cast<size_t>(rank);
  peer.connection->send(encode(FrameKind::request, BodyWriter().text(request).take()));
}

std::vector<RankOverview> Coordinator::overview() const {
  std::vector<RankOverview> all;
  for (const Peer& peer : peers_) all.push_back({peer.host, peer.status});
  return all;
}

void Coordinator::send_to_all(const std::string& frame) {
  for (Connection* connection : peers()) connection->send(frame);
}

std::string Coordinator::name(size_t rank) const {
  return rank_text(rank, peers_[rank].host);
}

void Coordinator::heartbeat(const RankStatus& own) {
  is_full_ = false;
  update(peers_[0], own);
  const auto now = Connection::Clock::now();
  std::erase_if(pending_, [&](const Pending& each) { return now - each.since > kPendingTimeout; });
  find_lost();
  find_straggler();
  find_stuck();
  send_to_all(encode(FrameKind::group_status, BodyWriter().text(encode_status(own)).text(straggler_).take()));
}

bool Coordinator::has_closed() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) { return peer.closed && !peer.has_left; });
}

void Coordinator::find_lost() {
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (!peer.connection || peer.has_left) continue;
    if (peer.closed && Connection::Clock::now() - *peer.closed >= kClosedGrace)
      lose(ExitCode::peer_lost, fmt::format("{} is gone{}", name(rank), status_text(peer.status)));
    if (!peer.closed && peer.connection->silence() > request_.timeout) {
      lose(ExitCode::peer_lost, fmt::format("{} has not been heard of for {:.0f} s{}", name(rank),
                                            seconds(peer.connection->silence()), status_text(peer.status)));
    }
  }
}

void Coordinator::update(Peer& peer, const RankStatus& status) {
  if (status.changes != peer.status.changes || status.waits != peer.status.waits)
    peer.changed = Connection::Clock::now();
  peer.status = status;
}

/// Within a step, after the first one of its process. A rank that starts, saves or evaluates may take longer.
bool Coordinator::is_in_step(const Peer& peer) {
  const Activity activity = peer.status.activity;
  const bool is_warm = peer.status.first_step > 0 && peer.status.step > peer.status.first_step;
  return is_warm && (activity == Activity::awaiting_data || activity == Activity::computing);
}

/// The straggler is lost if its status has not changed while another rank has waited for it longer than the
/// timeout, or three times as long outside of steps. The run is lost if no rank makes progress. A rank that
/// computes for long is not lost while nobody waits.
void Coordinator::find_stuck() {
  if (!is_complete()) return;
  constexpr const char* kAdvice = "raise parallelism.timeout if that is no fault";
  Connection::Clock::duration longest(0), shortest = Connection::Clock::duration::max();
  for (const Peer& peer : peers_) {
    const Connection::Clock::duration unchanged = Connection::Clock::now() - peer.changed;
    if (peer.status.waits) longest = std::max(longest, unchanged);
    shortest = std::min(shortest, unchanged);
  }
  // One that goes on keeps the others waiting, but does not hang.
  if (last_ != nullptr) longest = std::min(longest, Connection::Clock::now() - last_->changed);
  if (last_ != nullptr && longest > (is_in_step(*last_) ? 1 : 3) * request_.timeout)
    lose(ExitCode::peer_lost, fmt::format("{}; others have waited for it for {:.0f} s; {}", straggler_,
                                          seconds(longest), kAdvice));
  if (shortest > 3 * request_.timeout)
    lose(ExitCode::peer_lost,
         fmt::format("{}no rank has gone on for {:.0f} s; {}", straggler_.empty() ? "" : straggler_ + "; ",
                     seconds(shortest), kAdvice));
}

/// A silent rank; else one that does not wait for others; of several, the one at the earliest step. Nobody if
/// the choice is not unique.
void Coordinator::find_straggler() {
  const auto silence = [](const Peer& peer) {
    return peer.connection ? peer.connection->silence() : Connection::Clock::duration(0);
  };
  const auto order = [&](const Peer& peer) {
    return std::tuple(silence(peer) <= kSilent, peer.status.waits, peer.status.step);
  };
  const auto last = std::ranges::min_element(peers_, {}, order);
  const bool is_silent = silence(*last) > kSilent;
  straggler_ = "";
  last_ = nullptr;
  if (last->status.waits && !is_silent) return;
  if (std::ranges::count(peers_, order(*last), order) > 1) return;
  last_ = &*last;
  straggler_ = name(static_cast<size_t>(last - peers_.begin())) + status_text(last->status);
  if (is_silent) straggler_ += fmt::format(", not heard of for {:.0f} s", seconds(silence(*last)));
}

}  // namespace trainer
