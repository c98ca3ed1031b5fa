// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>

#include <thread>
#include <utility>

#include "core/ranks/star.h"

namespace trainer {
namespace {

constexpr std::chrono::milliseconds kBetweenTries(100);
constexpr std::chrono::seconds kPatienceWithAnswer(5);

/// The next frame; nothing if the connection ends, or stays silent for that long or until `end`.
std::optional<Frame> await(Line& line, Line::Clock::time_point end) {
  while (line.silence() < kPatienceWithAnswer && Line::Clock::now() < end) {
    if (std::optional<Frame> frame = line.next()) return frame;
    pollfd asked{line.number(), POLLIN, 0};
    if (::poll(&asked, 1, static_cast<int>(kBetweenTries.count())) > 0 && !line.receive()) break;
  }
  return line.next();
}

}  // namespace

Spoke::Spoke(const ControlRequest& request, const Endpoint& first) : request_(request) {
  const Identity& identity = request.identity;
  const auto patience = 3 * request.timeout;
  const auto end = Line::Clock::now() + patience;
  try {
    while (!join(first, end)) {
      if (Line::Clock::now() > end) {
        throw Error(ExitCode::peer_lost,
                    fmt::format("rank {} on {}: rank 0 does not answer at {} port {} within {} s; "
                                "start all ranks together, with the MASTER_ADDR and MASTER_PORT of rank 0",
                                identity.rank, request.host, first.host, first.port, patience.count()));
      }
      std::this_thread::sleep_for(kBetweenTries);
    }
  } catch (const Refused& problem) {
    throw Error(ExitCode::no_device,
                fmt::format("rank {} on {} cannot join rank 0 at {} port {}: {}", identity.rank, request.host,
                            first.host, first.port, problem.what()));
  }
}

/// False if nobody is there yet, or not a rank 0.
bool Spoke::join(const Endpoint& first, Line::Clock::time_point end) try {
  const Identity& identity = request_.identity;
  Descriptor descriptor = connect_to(first);
  if (descriptor.number() < 0) return false;
  Line line(std::move(descriptor));
  Visitor visitor(request_.secret, identity.rank, identity.ranks, request_.host);
  const std::optional<Frame> hello = await(line, end);
  if (!hello) return false;
  line.send(visitor.join(*hello));
  const std::optional<Frame> answer = await(line, end);
  if (!answer) return false;
  first_host_ = visitor.enter(*answer);
  line_.emplace(std::move(line));
  line_->trust();
  return true;
} catch (const BadFrame&) {
  return false;
}

std::vector<Line*> Spoke::lines() {
  if (closed_) return {};
  return {&*line_};
}

void Spoke::read(Line& line) try {
  if (!line.receive()) closed_ = Line::Clock::now();
  while (const std::optional<Frame> frame = line.next()) heed(*frame);
} catch (const BadFrame& problem) {
  lose(ExitCode::peer_lost, fmt::format("{} has sent {}", name(), problem.what()));
}

void Spoke::heed(const Frame& frame) {
  BodyReader body(frame.body);
  if (frame.kind == FrameKind::ready) {
    is_complete_ = true;
  } else if (frame.kind == FrameKind::others) {
    const std::string where = body.text();
    BodyReader parts(where);
    first_where_ = decode_where(parts);
    laggard_ = body.text();
  } else if (frame.kind == FrameKind::all) {
    const auto round = static_cast<int64_t>(body.number());
    std::vector<std::string> texts;
    for (int64_t rank = 0; rank < request_.identity.ranks; ++rank) texts.push_back(body.text());
    rounds_[round] = std::move(texts);
  } else if (frame.kind == FrameKind::farewell) {
    const auto code = static_cast<ExitCode>(body.below(256));
    has_left_ = true;
    if (const std::string reason = body.text(); code != ExitCode::done) lose(code, reason);
  } else {
    throw BadFrame("a frame that only other ranks send");
  }
  body.end();
}

std::string Spoke::name() const {
  return rank_text(0, first_host_);
}

void Spoke::beat(const Whereabouts& own) {
  if (has_left_) return;
  if (closed_ && Line::Clock::now() - *closed_ >= kPatienceWithClosed)
    lose(ExitCode::peer_lost, fmt::format("{} is gone{}", name(), where_text(first_where_)));
  if (closed_) return;
  line_->send(encode(FrameKind::position, encode_where(own)));
  if (line_->silence() <= request_.timeout) return;
  const double silence = std::chrono::duration<double>(line_->silence()).count();
  lose(ExitCode::peer_lost,
       fmt::format("{} has not been heard of for {:.0f} s{}", name(), silence, where_text(first_where_)));
}

bool Spoke::has_closed() const {
  return closed_.has_value() && !has_left_;
}

void Spoke::give(int64_t round, const std::string& text) {
  line_->send(encode(FrameKind::give, BodyWriter().number(static_cast<uint64_t>(round)).text(text).take()));
}

}  // namespace trainer
