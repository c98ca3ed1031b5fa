// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifdef TRAINER_MPI_STANDARD_ABI
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace trainer::mpi {

/// Starts one MPI request, and returns MPI's code.
struct Piece {
  std::function<int(MPI_Request*)> start;
  int64_t bytes = 0;
};

/// A collective of all ranks, made of any number of MPI requests.
struct Work {
  std::string what;           ///< for messages: "the sum of bucket 3"
  std::vector<Piece> pieces;  ///< started in this order, by the thread
  /// MPI copies what it adds up. So of work in one queue only a few bytes are under way at a time: further
  /// pieces start when some are done. A queue needs a communicator of its own, where the order of the pieces
  /// is that of all ranks. Work without one starts at once.
  std::optional<int> queue = {};
  size_t started = 0, done = 0;  ///< pieces
  std::chrono::steady_clock::time_point since = {};
  std::atomic<bool> is_done = false;
};

/// The one thread that calls MPI, and starts and ends it. Work starts in the order in which it is put, and
/// nothing blocks. Open MPI makes progress only while it is called, so the thread polls. It sleeps in
/// between, to leave the core to the computation, unless that waits for it.
class ProgressThread {
 public:
  struct Position {
    int rank = 0, ranks = 0;
    std::string problem;  ///< why MPI did not start
  };

  /// `on_late` is called, and does not return, if work, the start or the end is not done after `timeout`.
  ProgressThread(std::chrono::seconds timeout, std::function<void(const std::string&)> on_late);
  ~ProgressThread();

  /// Ends MPI if all work is done. Otherwise does not, since other ranks may never reach the end.
  void end();

  const Position& position() const { return position_; }

  void put(std::shared_ptr<Work> work);
  /// Has the thread call this, which may block and returns MPI's code. Returns once it is done.
  void call(const char* what, const std::function<int()>& function);
  /// Returns once it is done.
  void wait(const Work& work);

 private:
  void run();
  void work();
  void await(const char* what, const std::function<bool()>& is_there);
  std::string late_text(const std::string& what) const;
  bool poll();
  void take_work();
  void start_pieces();
  void start_piece(const std::shared_ptr<Work>& work);
  void finish(Work& work);
  void make_call();
  void pause();

  std::chrono::seconds timeout_;
  std::function<void(const std::string&)> on_late_;
  Position position_;
  bool has_started_ = false, ends_ = false, has_ended_ = false, has_called_ = false;
  const std::function<int()>* call_ = nullptr;  ///< to make
  std::string called_;                          ///< its name
  std::atomic<bool> is_awaited_ = false;
  std::chrono::microseconds sleep_{5};  ///< the next one; the thread's own
  /// A request that is under way.
  struct Request {
    MPI_Request mpi;
    std::shared_ptr<Work> work;
    int64_t bytes;
  };
  /// Work that has pieces to start, and the bytes of those that are under way.
  struct Queue {
    std::list<std::shared_ptr<Work>> work;
    int64_t bytes = 0;
  };
  bool has_queued() const;
  std::list<std::shared_ptr<Work>> put_;  ///< not seen by the thread yet
  std::map<int, Queue> queues_;           ///< the thread's own
  std::list<Request> active_;             ///< the thread's own
  std::mutex mutex_;
  std::condition_variable changed_, done_;
  std::thread thread_;
};

}  // namespace trainer::mpi
