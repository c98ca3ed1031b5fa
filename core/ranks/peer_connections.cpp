// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/peer_connections.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/ranks/participants.h"

namespace trainer {
namespace {

using Clock = Connection::Clock;

constexpr std::chrono::seconds kAnnouncementTimeout(1);

int milliseconds_until(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, left));
}

short events_of(const Connection& connection) {
  return static_cast<short>(connection.has_more() ? POLLIN | POLLOUT : POLLIN);
}

}  // namespace

PeerConnections::PeerConnections(const PeerConnectionsRequest& request, Listener listener)
    : request_(request) {
  participant_ = std::make_unique<Coordinator>(request_, std::move(listener));
  start();
}

PeerConnections::PeerConnections(const PeerConnectionsRequest& request, const Endpoint& rank_0)
    : request_(request) {
  participant_ = std::make_unique<Member>(request_, rank_0);
  start();
}

void PeerConnections::start() {
  waker_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (waker_.get() < 0) throw Error(ExitCode::out_of_memory, "no further file can be opened");
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  const auto timeout = 3 * request_.timeout;
  if (changed_.wait_for(lock, timeout,
                        [this] { return participant_->is_complete() || participant_->loss(); }))
    return;
  const std::string text = fmt::format("no sign of {} of {} within {} s", participant_->missing(),
                                       request_.identity.ranks, timeout.count());
  lock.unlock();
  announce_exit(ExitCode::peer_lost, text);
  lock.lock();
  ends_ = true;
  lock.unlock();
  wake();
  thread_.join();
  throw Error(ExitCode::peer_lost, text);
}

PeerConnections::~PeerConnections() {
  try {
    announce_exit(ExitCode::done, "");
  } catch (const std::bad_alloc&) {  // the others then report that this rank is lost
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake();
  thread_.join();
}

void PeerConnections::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(waker_.get(), &one, sizeof one);
}

int64_t PeerConnections::start_all_gather(const std::string& text) {
  const std::lock_guard lock(mutex_);
  participant_->contribute(rounds_, text);
  if (participant_->has_gathered(rounds_)) changed_.notify_all();
  wake();  // the thread sends what did not fit
  return rounds_++;
}

std::vector<std::string> PeerConnections::wait_all_gather(int64_t round) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return participant_->has_gathered(round) || participant_->loss(); });
  if (!participant_->has_gathered(round))
    throw PeerError(participant_->loss()->code, participant_->loss()->text);
  return participant_->take(round);
}

std::string PeerConnections::ask(int64_t rank, const std::string& request) {
  std::unique_lock lock(mutex_);
  participant_->ask(rank, request);
  wake();  // the thread sends what did not fit
  std::optional<std::string> answer;
  changed_.wait(lock, [&] {
    answer = participant_->take_answer();
    return answer || participant_->loss();
  });
  if (!answer) throw PeerError(participant_->loss()->code, participant_->loss()->text);
  return *std::move(answer);
}

void PeerConnections::answer_with(std::function<std::string(const std::string&)> answer) {
  const std::lock_guard lock(mutex_);
  participant_->answer_with(std::move(answer));
}

void PeerConnections::send_line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  participant_->send_line(text);
  wake();  // the thread sends what did not fit
}

std::vector<RankOverview> PeerConnections::overview() const {
  const std::lock_guard lock(mutex_);
  return participant_->overview();
}

std::string PeerConnections::straggler() const {
  const std::lock_guard lock(mutex_);
  return participant_->straggler();
}

void PeerConnections::announce_exit(ExitCode code, const std::string& reason) {
  const std::string frame =
      encode(FrameKind::exiting, BodyWriter().number(static_cast<uint64_t>(code)).text(reason).take());
  const auto end = Clock::now() + kAnnouncementTimeout;
  const std::lock_guard lock(mutex_);
  const std::vector<Connection*> connections = participant_->peers();
  for (Connection* connection : connections) connection->send(frame);
  for (Connection* connection : connections) {
    while (connection->has_more() && Clock::now() < end) {
      pollfd asked{connection->fd(), POLLOUT, 0};
      if (::poll(&asked, 1, milliseconds_until(end)) > 0 && (asked.revents & (POLLERR | POLLHUP)) != 0) break;
      connection->flush();
    }
  }
}

void PeerConnections::await_exit_of_rank_0(std::chrono::milliseconds timeout) {
  std::vector<pollfd> asked;
  {
    const std::lock_guard lock(mutex_);
    for (const Connection* connection : participant_->peers())
      asked.push_back({connection->fd(), POLLRDHUP, 0});
  }
  const auto end = Clock::now() + timeout;
  while (!asked.empty() && Clock::now() < end &&
         ::poll(asked.data(), asked.size(), milliseconds_until(end)) < 0) {
  }
}

void PeerConnections::run() {
  try {
    while (poll()) {
    }
  } catch (const std::exception& problem) {
    const std::lock_guard lock(mutex_);
    const Failure failure = failure_of(problem);
    participant_->lose(failure.code, "the connections between ranks: " + failure.text);
  }
  std::optional<Participant::Loss> loss;
  {
    const std::lock_guard lock(mutex_);
    if (!ends_) loss = participant_->loss();
  }
  changed_.notify_all();
  if (!loss) return;
  announce_exit(loss->code, loss->text);  // rank 0 lets those know that do not yet
  request_.on_lost(loss->code, loss->text);
}

/// Waits for the next heartbeat or for bytes, and handles them. Returns whether to go on.
bool PeerConnections::poll() {
  const RankStatus own = request_.status();
  std::vector<pollfd> asked = {{waker_.get(), POLLIN, 0}};
  std::vector<Connection*> connections;
  {
    const std::lock_guard lock(mutex_);
    if (ends_) return false;
    asked.push_back({participant_->listening_fd(), POLLIN, 0});  // poll ignores -1
    connections = participant_->connections();
    for (const Connection* connection : connections)
      asked.push_back({connection->fd(), events_of(*connection), 0});
  }
  ::poll(asked.data(), asked.size(), milliseconds_until(next_heartbeat_));
  const std::lock_guard lock(mutex_);
  // Old times do not count after the job was suspended.
  const auto gap = Clock::now() - std::exchange(polled_, Clock::now());
  if (gap > 4 * kHeartbeatInterval) participant_->discount_silence(gap);
  uint64_t woken = 0;
  [[maybe_unused]] const ssize_t count = ::read(waker_.get(), &woken, sizeof woken);
  for (size_t i = 0; i < connections.size(); ++i) {
    if ((asked[i + 2].revents & POLLOUT) != 0) connections[i]->flush();
    if ((asked[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) participant_->read(*connections[i]);
  }
  if (asked[1].revents != 0) participant_->accept_connection();
  if (Clock::now() >= next_heartbeat_) {
    participant_->heartbeat(own);
    next_heartbeat_ = Clock::now() + kHeartbeatInterval;
  }
  // Open MPI 5 kills the other ranks half a second after one has ended: their reason must be out by then.
  if (participant_->has_closed())
    next_heartbeat_ = std::min(next_heartbeat_, Clock::now() + kClosedGrace / 4);
  changed_.notify_all();
  return !participant_->loss();
}

}  // namespace trainer
