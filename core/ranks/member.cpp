// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>

#include <stdexcept>
#include <thread>
#include <utility>

#include "core/ranks/participants.h"

namespace trainer {
namespace {

constexpr std::chrono::milliseconds kRetryInterval(100);
constexpr std::chrono::seconds kAnswerTimeout(5);

/// The next frame. Nothing if the connection closes, or stays silent for kAnswerTimeout or until `end`.
std::optional<Frame> await(Connection& connection, Connection::Clock::time_point end) {
  while (connection.silence() < kAnswerTimeout && Connection::Clock::now() < end) {
    if (std::optional<Frame> frame = connection.next()) return frame;
    pollfd asked{connection.fd(), POLLIN, 0};
    if (::poll(&asked, 1, static_cast<int>(kRetryInterval.count())) > 0 && !connection.receive()) break;
  }
  return connection.next();
}

}  // namespace

Member::Member(const PeerConnectionsRequest& request, const Endpoint& rank_0) : request_(request) {
  const RankIdentity& identity = request.identity;
  const auto timeout = 3 * request.timeout;
  const auto end = Connection::Clock::now() + timeout;
  try {
    while (!join(rank_0, end)) {
      if (Connection::Clock::now() > end) {
        throw Error(ExitCode::peer_lost,
                    fmt::format("rank {} on {}: rank 0 does not answer at {} port {} within {} s; "
                                "start all ranks together, with the MASTER_ADDR and MASTER_PORT of rank 0",
                                identity.rank, request.host, rank_0.host, rank_0.port, timeout.count()));
      }
      std::this_thread::sleep_for(kRetryInterval);
    }
  } catch (const Refused& problem) {
    throw Error(ExitCode::no_device,
                fmt::format("rank {} on {} cannot join rank 0 at {} port {}: {}", identity.rank, request.host,
                            rank_0.host, rank_0.port, problem.what()));
  }
}

/// False if nobody listens there yet, or if it is no rank 0.
bool Member::join(const Endpoint& rank_0, Connection::Clock::time_point end) try {
  const RankIdentity& identity = request_.identity;
  FileDescriptor socket = connect_to(rank_0);
  if (socket.get() < 0) return false;
  Connection connection(std::move(socket));
  HandshakeClient handshake(request_.secret, identity.rank, identity.ranks, request_.host);
  const std::optional<Frame> hello = await(connection, end);
  if (!hello) return false;
  connection.send(handshake.join(*hello));
  const std::optional<Frame> answer = await(connection, end);
  if (!answer) return false;
  rank_0_host_ = handshake.check_welcome(*answer);
  connection_.emplace(std::move(connection));
  connection_->trust();
  return true;
} catch (const BadFrame&) {
  return false;
}

std::vector<Connection*> Member::connections() {
  if (closed_) return {};
  return {&*connection_};
}

void Member::read(Connection& connection) try {
  if (!connection.receive()) closed_ = Connection::Clock::now();
  while (const std::optional<Frame> frame = connection.next()) handle(*frame);
} catch (const BadFrame& problem) {
  lose(ExitCode::peer_lost, fmt::format("{} has sent {}", name(), problem.what()));
}

void Member::handle(const Frame& frame) {
  BodyReader body(frame.body);
  if (frame.kind == FrameKind::ready) {
    is_complete_ = true;
  } else if (frame.kind == FrameKind::group_status) {
    const std::string status = body.text();
    BodyReader parts(status);
    rank_0_status_ = decode_status(parts);
    straggler_ = body.text();
  } else if (frame.kind == FrameKind::gathered) {
    const auto round = static_cast<int64_t>(body.number());
    std::vector<std::string> texts;
    for (int64_t rank = 0; rank < request_.identity.ranks; ++rank) texts.push_back(body.text());
    gathered_[round] = std::move(texts);
  } else if (frame.kind == FrameKind::exiting) {
    const auto code = static_cast<ExitCode>(body.below(256));
    has_left_ = true;
    if (const std::string reason = body.text(); code != ExitCode::done) lose(code, reason);
  } else if (frame.kind == FrameKind::request) {
    const std::string request = body.text();
    // A rank that is about to exit answers no more, and announces why.
    if (answers_) connection_->send(encode(FrameKind::answer, BodyWriter().text(answers_(request)).take()));
  } else {
    throw BadFrame("a frame that only other ranks send");
  }
  body.end();
}

std::string Member::name() const {
  return rank_text(0, rank_0_host_);
}

void Member::heartbeat(const RankStatus& own) {
  if (has_left_) return;
  if (closed_ && Connection::Clock::now() - *closed_ >= kClosedGrace)
    lose(ExitCode::peer_lost, fmt::format("{} is gone{}", name(), status_text(rank_0_status_)));
  if (closed_) return;
  connection_->send(encode(FrameKind::heartbeat, encode_status(own)));
  if (connection_->silence() <= request_.timeout) return;
  const double silence = std::chrono::duration<double>(connection_->silence()).count();
  lose(ExitCode::peer_lost,
       fmt::format("{} has not been heard of for {:.0f} s{}", name(), silence, status_text(rank_0_status_)));
}

bool Member::has_closed() const {
  return closed_.has_value() && !has_left_;
}

void Member::contribute(int64_t round, const std::string& text) {
  connection_->send(
      encode(FrameKind::contribution, BodyWriter().number(static_cast<uint64_t>(round)).text(text).take()));
}

void Member::send_line(const std::string& text) {
  if (!closed_) connection_->send(encode(FrameKind::line, BodyWriter().text(text).take()));
}

void Member::ask(int64_t, const std::string&) {
  throw std::logic_error("only rank 0 asks other ranks");
}

}  // namespace trainer
