// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/ranks/star.h"

namespace trainer {
namespace {

using Clock = Line::Clock;

constexpr std::chrono::seconds kPatienceWithFarewell(1);

int milliseconds_until(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, left));
}

short events_of(const Line& line) {
  return static_cast<short>(line.has_more() ? POLLIN | POLLOUT : POLLIN);
}

}  // namespace

Control::Control(const ControlRequest& request, Listener listener) : request_(request) {
  end_ = std::make_unique<Hub>(request_, std::move(listener));
  begin();
}

Control::Control(const ControlRequest& request, const Endpoint& first) : request_(request) {
  end_ = std::make_unique<Spoke>(request_, first);
  begin();
}

void Control::begin() {
  waker_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (waker_.number() < 0) throw Error(ExitCode::out_of_memory, "no further file can be opened");
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  const auto patience = 3 * request_.timeout;
  if (changed_.wait_for(lock, patience, [this] { return end_->is_complete() || end_->loss(); })) return;
  const std::string text = fmt::format("no sign of {} of {} within {} s", end_->missing(),
                                       request_.identity.ranks, patience.count());
  lock.unlock();
  farewell(ExitCode::peer_lost, text);
  lock.lock();
  ends_ = true;
  lock.unlock();
  wake();
  thread_.join();
  throw Error(ExitCode::peer_lost, text);
}

Control::~Control() {
  try {
    farewell(ExitCode::done, "");
  } catch (const std::bad_alloc&) {  // the others then report that this rank is lost
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake();
  thread_.join();
}

void Control::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(waker_.number(), &one, sizeof one);
}

int64_t Control::give(const std::string& text) {
  const std::lock_guard lock(mutex_);
  end_->give(given_, text);
  if (end_->has(given_)) changed_.notify_all();
  wake();  // where not all of it could be sent
  return given_++;
}

std::vector<std::string> Control::take(int64_t round) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return end_->has(round) || end_->loss(); });
  if (!end_->has(round)) throw PeerError(end_->loss()->code, end_->loss()->text);
  return end_->take(round);
}

std::string Control::laggard() const {
  const std::lock_guard lock(mutex_);
  return end_->laggard();
}

void Control::farewell(ExitCode code, const std::string& reason) {
  const std::string frame =
      encode(FrameKind::farewell, BodyWriter().number(static_cast<uint64_t>(code)).text(reason).take());
  const auto end = Clock::now() + kPatienceWithFarewell;
  const std::lock_guard lock(mutex_);
  const std::vector<Line*> lines = end_->members();
  for (Line* line : lines) line->send(frame);
  for (Line* line : lines) {
    while (line->has_more() && Clock::now() < end) {
      pollfd asked{line->number(), POLLOUT, 0};
      if (::poll(&asked, 1, milliseconds_until(end)) > 0 && (asked.revents & (POLLERR | POLLHUP)) != 0) break;
      line->flush();
    }
  }
}

void Control::await_end_of_first(std::chrono::milliseconds patience) {
  std::vector<pollfd> asked;
  {
    const std::lock_guard lock(mutex_);
    for (const Line* line : end_->members()) asked.push_back({line->number(), POLLRDHUP, 0});
  }
  const auto end = Clock::now() + patience;
  while (!asked.empty() && Clock::now() < end &&
         ::poll(asked.data(), asked.size(), milliseconds_until(end)) < 0) {
  }
}

void Control::run() {
  try {
    while (watch()) {
    }
  } catch (const std::exception& problem) {
    const std::lock_guard lock(mutex_);
    const Failure failure = failure_of(problem);
    end_->lose(failure.code, "the control connections: " + failure.text);
  }
  std::optional<StarEnd::Loss> loss;
  {
    const std::lock_guard lock(mutex_);
    if (!ends_) loss = end_->loss();
  }
  changed_.notify_all();
  if (!loss) return;
  farewell(loss->code, loss->text);  // from rank 0 to those that do not know yet
  request_.on_lost(loss->code, loss->text);
}

/// Until the next beat, or until something has come. Returns whether there is more to watch.
bool Control::watch() {
  const Whereabouts own = request_.whereabouts();
  std::vector<pollfd> asked = {{waker_.number(), POLLIN, 0}};
  std::vector<Line*> lines;
  {
    const std::lock_guard lock(mutex_);
    if (ends_) return false;
    asked.push_back({end_->door(), POLLIN, 0});  // one of -1 is passed over
    lines = end_->lines();
    for (const Line* line : lines) asked.push_back({line->number(), events_of(*line), 0});
  }
  ::poll(asked.data(), asked.size(), milliseconds_until(next_beat_));
  const std::lock_guard lock(mutex_);
  // A job that was suspended finds old times when it goes on.
  const auto gap = Clock::now() - std::exchange(watched_, Clock::now());
  if (gap > 4 * kBeat) end_->forgive(gap);
  uint64_t woken = 0;
  [[maybe_unused]] const ssize_t count = ::read(waker_.number(), &woken, sizeof woken);
  for (size_t i = 0; i < lines.size(); ++i) {
    if ((asked[i + 2].revents & POLLOUT) != 0) lines[i]->flush();
    if ((asked[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) end_->read(*lines[i]);
  }
  if (asked[1].revents != 0) end_->open_door();
  if (Clock::now() >= next_beat_) {
    end_->beat(own);
    next_beat_ = Clock::now() + kBeat;
  }
  // Half a second after a rank's end Open MPI 5 kills the others: by then they have said why.
  if (end_->has_closed()) next_beat_ = std::min(next_beat_, Clock::now() + kPatienceWithClosed / 4);
  changed_.notify_all();
  return !end_->loss();
}

}  // namespace trainer
