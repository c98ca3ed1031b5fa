// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/track/mlflow_sender.h"

namespace trainer {

/// Sends a run that trains to an MLflow server, on a thread of its own. Training appends to metrics.jsonl and
/// never waits for it. A server that does not answer is asked again, at most a minute later.
class Tracker {
 public:
  struct Message {
    bool is_warning;
    std::string text;
  };

  explicit Tracker(TrackedRun run);
  ~Tracker();
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  /// Cheap if there are none.
  std::vector<Message> take_messages();
  /// Sends what is left and the run's end, if that takes no longer than this. From then on nothing is sent.
  void finish(const std::string& status, std::chrono::milliseconds patience);

 private:
  enum class Ending { no, wanted, done };

  void run();
  bool send_all(MlflowSender& sender);
  void cancel();
  void say(bool is_warning, const std::string& text);
  void pause(std::chrono::milliseconds time);
  std::string later() const;

  TrackedRun run_;
  std::atomic<bool> is_cancelled_ = false, has_messages_ = false;
  std::mutex mutex_;  ///< for the members below
  std::condition_variable changed_;
  Ending ending_ = Ending::no;
  std::string status_;
  std::vector<Message> messages_;
  bool is_silent_ = false;    ///< of the thread: the server did not answer last time
  bool is_complete_ = false;  ///< the server has all
  bool has_given_up_ = false;
  std::thread thread_;
};

}  // namespace trainer
