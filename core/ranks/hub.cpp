// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "core/ranks/star.h"

namespace trainer {
namespace {

/// A rank needs milliseconds to prove what it is; who only holds a connection open is in the way.
constexpr std::chrono::seconds kPatienceWithStrangers(5);
constexpr size_t kMostStrangers = 64;
constexpr auto kSilent = 4 * kBeat;

double seconds(Line::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::vector<std::string> StarEnd::take(int64_t round) {
  std::vector<std::string> texts = std::move(rounds_.at(round));
  rounds_.erase(round);
  return texts;
}

std::string rank_text(size_t rank, const std::string& host) {
  return fmt::format("rank {} on {}", rank, host);
}

std::string where_text(const Whereabouts& where) {
  return fmt::format(", at step {}: {}{}", where.step, name_of(where.doing),
                     where.waits ? ", waiting for other ranks" : "");
}

std::string encode_where(const Whereabouts& where) {
  return BodyWriter()
      .number(static_cast<uint64_t>(where.step))
      .number(static_cast<uint64_t>(where.doing))
      .number(where.waits ? 1 : 0)
      .number(static_cast<uint64_t>(where.moves))
      .number(static_cast<uint64_t>(where.first_step))
      .take();
}

Whereabouts decode_where(BodyReader& body) {
  Whereabouts where{.step = static_cast<int64_t>(body.number())};
  where.doing = static_cast<Doing>(body.below(kDoingNames.size()));
  where.waits = body.below(2) == 1;
  where.moves = static_cast<int64_t>(body.number());
  where.first_step = static_cast<int64_t>(body.number());
  return where;
}

Hub::Hub(const ControlRequest& request, Listener listener)
    : request_(request), listener_(std::move(listener)), peers_(static_cast<size_t>(request.identity.ranks)) {
  peers_[0].host = request.host;
}

bool Hub::is_complete() const {
  return std::all_of(peers_.begin() + 1, peers_.end(),
                     [](const Peer& peer) { return peer.line.has_value(); });
}

std::string Hub::missing() const {
  std::vector<size_t> missing;
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    if (!peers_[rank].line) missing.push_back(rank);
  }
  return fmt::format("{} {}", missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "));
}

std::vector<Line*> Hub::lines() {
  std::vector<Line*> lines = members();
  for (Stranger& each : strangers_) lines.push_back(&each.line);
  return lines;
}

std::vector<Line*> Hub::members() {
  std::vector<Line*> lines;
  for (Peer& peer : peers_) {
    if (peer.line && !peer.closed) lines.push_back(&*peer.line);
  }
  return lines;
}

void Hub::forgive(Line::Clock::duration gap) {
  for (Peer& peer : peers_) {
    if (peer.line) peer.line->forgive(gap);
    peer.moved += gap;
  }
}

/// The oldest stranger makes room, so that whoever holds connections open keeps no rank out.
void Hub::open_door() {
  Descriptor guest = listener_.accept();
  is_full_ = guest.number() < 0;
  if (is_full_) return;
  if (strangers_.size() == kMostStrangers) strangers_.pop_front();
  strangers_.push_back(
      {Line(std::move(guest)), Doorman(request_.secret, request_.identity.ranks), Line::Clock::now()});
  strangers_.back().line.send(strangers_.back().doorman.hello());
}

void Hub::read(Line& line) {
  const auto place =
      std::ranges::find_if(strangers_, [&](const Stranger& each) { return &each.line == &line; });
  if (place != strangers_.end() && !hears_out(*place)) strangers_.erase(place);
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    if (peers_[rank].line && &*peers_[rank].line == &line) return read_peer(rank);
  }
}

/// Whether the connection may yet ask to join. Whoever sends anything else than a rank does is no concern of
/// this run.
bool Hub::hears_out(Stranger& stranger) try {
  const bool is_open = stranger.line.receive();
  const std::optional<Frame> frame = stranger.line.next();
  if (frame) admit(stranger, *frame);
  return is_open && !frame;
} catch (const BadFrame&) {
  return false;
}

void Hub::admit(Stranger& stranger, const Frame& join) try {
  const Doorman::Guest guest = stranger.doorman.admit(join);
  const auto rank = static_cast<size_t>(guest.rank);
  Peer& peer = peers_.at(rank);
  if (peer.line) throw Refused(fmt::format("{} has joined already", name(rank)));
  peer.host = guest.host;
  peer.line.emplace(std::move(stranger.line));
  peer.line->trust();
  peer.line->send(stranger.doorman.welcome(guest, request_.host));
  if (is_complete()) send_to_all(encode(FrameKind::ready, ""));
} catch (const Refused& problem) {
  stranger.line.send(encode(FrameKind::refuse, BodyWriter().text(problem.what()).take()));
}

void Hub::read_peer(size_t rank) try {
  Peer& peer = peers_[rank];
  if (!peer.line->receive()) peer.closed = Line::Clock::now();
  while (const std::optional<Frame> frame = peer.line->next()) heed(rank, *frame);
} catch (const BadFrame& problem) {
  lose(ExitCode::peer_lost, fmt::format("{} has sent {}", name(rank), problem.what()));
}

void Hub::heed(size_t rank, const Frame& frame) {
  Peer& peer = peers_[rank];
  BodyReader body(frame.body);
  if (frame.kind == FrameKind::position) {
    move(peer, decode_where(body));
  } else if (frame.kind == FrameKind::give) {
    const auto round = static_cast<int64_t>(body.number());
    collect(rank, round, body.text());
  } else if (frame.kind == FrameKind::farewell) {
    const auto code = static_cast<ExitCode>(body.below(256));
    peer.has_left = true;
    if (const std::string reason = body.text(); code != ExitCode::done) lose(code, reason);
  } else {
    throw BadFrame("a frame that only rank 0 sends");
  }
  body.end();
}

void Hub::collect(size_t rank, int64_t round, const std::string& text) {
  std::map<size_t, std::string>& given = given_[round];
  given[rank] = text;
  if (given.size() < peers_.size()) return;
  BodyWriter body;
  body.number(static_cast<uint64_t>(round));
  for (const auto& [from, each] : given) {
    body.text(each);
    rounds_[round].push_back(each);
  }
  given_.erase(round);
  send_to_all(encode(FrameKind::all, body.take()));
}

void Hub::send_to_all(const std::string& frame) {
  for (Line* line : members()) line->send(frame);
}

std::string Hub::name(size_t rank) const {
  return rank_text(rank, peers_[rank].host);
}

void Hub::beat(const Whereabouts& own) {
  is_full_ = false;
  move(peers_[0], own);
  const auto now = Line::Clock::now();
  std::erase_if(strangers_, [&](const Stranger& each) { return now - each.since > kPatienceWithStrangers; });
  find_lost();
  find_laggard();
  find_stuck();
  send_to_all(encode(FrameKind::others, BodyWriter().text(encode_where(own)).text(laggard_).take()));
}

bool Hub::has_closed() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) { return peer.closed && !peer.has_left; });
}

void Hub::find_lost() {
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (!peer.line || peer.has_left) continue;
    if (peer.closed && Line::Clock::now() - *peer.closed >= kPatienceWithClosed)
      lose(ExitCode::peer_lost, fmt::format("{} is gone{}", name(rank), where_text(peer.where)));
    if (!peer.closed && peer.line->silence() > request_.timeout) {
      lose(ExitCode::peer_lost, fmt::format("{} has not been heard of for {:.0f} s{}", name(rank),
                                            seconds(peer.line->silence()), where_text(peer.where)));
    }
  }
}

void Hub::move(Peer& peer, const Whereabouts& where) {
  if (where.moves != peer.where.moves || where.waits != peer.where.waits) peer.moved = Line::Clock::now();
  peer.where = where;
}

/// Within a step, once this process's first one is done. A rank that starts, saves or evaluates may take
/// longer.
bool Hub::is_in_step(const Peer& peer) {
  const Doing doing = peer.where.doing;
  const bool is_warm = peer.where.first_step > 0 && peer.where.step > peer.where.first_step;
  return is_warm && (doing == Doing::awaiting_data || doing == Doing::computing);
}

/// If another rank waits longer for the last one than the timeout, or three of them outside of steps; and
/// where no rank at all goes on. Whoever computes for long keeps nobody waiting, or the others say so.
void Hub::find_stuck() {
  if (!is_complete()) return;
  constexpr const char* kAdvice = "raise parallelism.timeout if that is no fault";
  Line::Clock::duration longest(0), shortest = Line::Clock::duration::max();
  for (const Peer& peer : peers_) {
    const Line::Clock::duration still = Line::Clock::now() - peer.moved;
    if (peer.where.waits) longest = std::max(longest, still);
    shortest = std::min(shortest, still);
  }
  if (last_ != nullptr && longest > (is_in_step(*last_) ? 1 : 3) * request_.timeout)
    lose(ExitCode::peer_lost,
         fmt::format("{}; others have waited for it for {:.0f} s; {}", laggard_, seconds(longest), kAdvice));
  if (shortest > 3 * request_.timeout)
    lose(ExitCode::peer_lost,
         fmt::format("{}no rank has gone on for {:.0f} s; {}", laggard_.empty() ? "" : laggard_ + "; ",
                     seconds(shortest), kAdvice));
}

/// Whoever is silent, else whoever does not wait for others, and of these the one that is farthest behind.
/// Nobody if several are.
void Hub::find_laggard() {
  const auto silence = [](const Peer& peer) {
    return peer.line ? peer.line->silence() : Line::Clock::duration(0);
  };
  const auto order = [&](const Peer& peer) {
    return std::tuple(silence(peer) <= kSilent, peer.where.waits, peer.where.step);
  };
  const auto last = std::ranges::min_element(peers_, {}, order);
  const bool is_silent = silence(*last) > kSilent;
  laggard_ = "";
  last_ = nullptr;
  if (last->where.waits && !is_silent) return;
  if (std::ranges::count(peers_, order(*last), order) > 1) return;
  last_ = &*last;
  laggard_ = name(static_cast<size_t>(last - peers_.begin())) + where_text(last->where);
  if (is_silent) laggard_ += fmt::format(", not heard of for {:.0f} s", seconds(silence(*last)));
}

}  // namespace trainer
