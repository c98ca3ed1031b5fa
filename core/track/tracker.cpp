// SPDX-License-Identifier: Apache-2.0
#include "core/track/tracker.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/base/printable.h"

namespace trainer {
namespace {

using std::chrono::milliseconds;

/// How often metrics.jsonl is looked at.
constexpr milliseconds kInterval(2000);
/// After a request without an answer; twice as long after each further one.
constexpr milliseconds kFirstPause(1000), kLongestPause(60000);

}  // namespace

Tracker::Tracker(TrackedRun run) : run_(std::move(run)) {
  try {
    thread_ = std::thread([this] { this->run(); });
  } catch (const std::system_error&) {  // no further thread is allowed
    has_given_up_ = true;
    say(true, fmt::format("no thread is left for the tracker; {}", later()));
  }
}

Tracker::~Tracker() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

/// Under the lock, so that a pause that begins now does not miss it.
void Tracker::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  changed_.notify_all();
}

std::string Tracker::later() const {
  return fmt::format("`trainer track {}` sends its metrics later", one_line(run_.directory.string()));
}

std::vector<Tracker::Message> Tracker::take_messages() {
  if (!has_messages_.exchange(false)) return {};
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

void Tracker::say(bool is_warning, const std::string& text) {
  const std::lock_guard lock(mutex_);
  messages_.push_back({is_warning, text});
  has_messages_ = true;
}

void Tracker::finish(const std::string& status, milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) return;
    status_ = status;
    if (ending_ == Ending::no) ending_ = Ending::wanted;
    changed_.notify_all();
    changed_.wait_for(lock, patience, [this] { return ending_ == Ending::done; });
  }
  cancel();
  thread_.join();
  if (!is_complete_ && !has_given_up_)
    say(true, fmt::format("{} does not have everything of this run; {}", one_line(run_.uri), later()));
}

/// Returns early if the run ends.
void Tracker::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return ending_ != Ending::no || is_cancelled_; });
}

void Tracker::run() {
  try {
    HttpClient http(credentials_from_environment(), [this] { return is_cancelled_.load(); });
    MlflowSender sender(run_, http, [this](const std::string& text) { say(true, text); });
    sender.set_running();
    for (milliseconds wait = kFirstPause; !is_cancelled_;) {
      const bool is_last = [&] {
        const std::lock_guard lock(mutex_);
        return ending_ != Ending::no;
      }();
      const bool answers = send_all(sender);
      if (answers && is_last) {
        sender.finish(status_);
        is_complete_ = true;
      }
      if (is_last) break;
      pause(answers ? kInterval : wait);
      wait = answers ? kFirstPause : std::min(2 * wait, kLongestPause);
    }
  } catch (const std::exception& problem) {
    const auto* tracker = dynamic_cast<const TrackerError*>(&problem);
    const bool may_come_back = tracker != nullptr && tracker->remedy == TrackerError::Remedy::retry;
    if (!may_come_back) {
      has_given_up_ = true;
      say(true, fmt::format("{}; the run goes on without it, and {}", problem.what(), later()));
    }
  }
  const std::lock_guard lock(mutex_);
  ending_ = Ending::done;
  changed_.notify_all();
}

/// False if the server does not answer, or the run's own files cannot be used for the moment.
bool Tracker::send_all(MlflowSender& sender) try {
  while (!is_cancelled_ && sender.advance()) {
    if (!is_silent_) continue;
    is_silent_ = false;
    say(false, fmt::format("{} answers again", one_line(run_.uri)));
  }
  return !is_cancelled_;
} catch (const Error& problem) {
  const auto* tracker = dynamic_cast<const TrackerError*>(&problem);
  if (tracker != nullptr && tracker->remedy != TrackerError::Remedy::retry) throw;
  if (!is_silent_ && !is_cancelled_)
    say(true, fmt::format("{}; the run goes on, and its metrics are sent later", problem.what()));
  is_silent_ = true;
  return false;
}

}  // namespace trainer
