// SPDX-License-Identifier: Apache-2.0
#include "mpi/progress_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <utility>

#include "core/base/kept_handlers.h"

namespace trainer::mpi {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two tests for completion: short at first, since small sums take microseconds.
constexpr std::chrono::microseconds kShortestSleep(5), kLongestSleep(100);
/// A sleep lasts at least 50 us, in which one fragment of a message moves. So while the computation waits,
/// the thread polls without sleeping; only a rank that waits this long waits for a slower one.
constexpr std::chrono::seconds kLongestSpin(1);
/// Of a queue's work.
constexpr int64_t kMostBytesUnderWay = int64_t{4} << 20;

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return std::string(text.data(), static_cast<size_t>(length));
}

/// In this thread, and in those that MPI starts: signals are for the others.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

/// MPI_Init, which must not replace handlers: MPICH takes USR1 for news of lost processes, which ends the
/// rank if Slurm's PMI has no such news. Intel MPI ends the process at TERM.
int start_mpi() {
  const KeptHandlers handlers;
  int thread_level = 0;
  return MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &thread_level);
}

}  // namespace

ProgressThread::ProgressThread(std::chrono::seconds timeout, std::function<void(const std::string&)> on_late)
    : timeout_(timeout), on_late_(std::move(on_late)), thread_([this] { run(); }) {
  await("the start of all ranks", [&] { return has_started_; });
}

ProgressThread::~ProgressThread() {
  end();
  thread_.join();
}

void ProgressThread::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  await("the end of all ranks", [&] { return has_ended_; });
}

/// For MPI's start and end, which block.
void ProgressThread::await(const char* what, const std::function<bool()>& is_there) {
  std::unique_lock lock(mutex_);
  if (!done_.wait_for(lock, timeout_, is_there)) on_late_(late_text(what));
}

std::string ProgressThread::late_text(const std::string& what) const {
  return fmt::format("{} has not come within {} s", what, timeout_.count());
}

void ProgressThread::put(std::shared_ptr<Work> work) {
  work->since = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    put_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void ProgressThread::wait(const Work& work) {
  if (work.is_done) return;
  is_awaited_ = true;
  std::unique_lock lock(mutex_);
  const auto is_done = [&] { return work.is_done.load(); };
  if (!done_.wait_for(lock, kLongestSpin, is_done)) {
    is_awaited_ = false;
    done_.wait(lock, is_done);
  }
  is_awaited_ = false;
}

void ProgressThread::run() {
  block_signals();
  Position position;
  if (const int code = start_mpi(); code != MPI_SUCCESS) {
    position.problem = text_of(code);
  } else {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &position.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &position.ranks);
  }
  const bool runs = position.problem.empty();
  {
    const std::lock_guard lock(mutex_);
    position_ = std::move(position);
    has_started_ = true;
  }
  done_.notify_all();
  if (runs) work();
  if (runs && active_.empty() && !has_queued() && put_.empty()) MPI_Finalize();
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  done_.notify_all();
}

void ProgressThread::work() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (active_.empty() && !has_queued())
        changed_.wait(lock, [&] { return ends_ || call_ != nullptr || !put_.empty(); });
      if (ends_) break;
      take_work();
    }
    make_call();
    start_pieces();
    if (poll()) {
      sleep_ = kShortestSleep;
    } else {
      pause();
    }
  }
}

void ProgressThread::pause() {
  if (is_awaited_) return std::this_thread::yield();
  std::this_thread::sleep_for(sleep_);
  sleep_ = std::min(2 * sleep_, kLongestSleep);
}

void ProgressThread::call(const char* what, const std::function<int()>& function) {
  {
    const std::lock_guard lock(mutex_);
    call_ = &function;
    called_ = what;
    has_called_ = false;
  }
  changed_.notify_all();
  await(what, [&] { return has_called_; });
}

void ProgressThread::make_call() {
  const std::function<int()>* function = nullptr;
  {
    const std::lock_guard lock(mutex_);
    function = std::exchange(call_, nullptr);
  }
  if (function == nullptr) return;
  if (const int code = (*function)(); code != MPI_SUCCESS)
    on_late_(fmt::format("{}: {}", called_, text_of(code)));
  {
    const std::lock_guard lock(mutex_);
    has_called_ = true;
  }
  done_.notify_all();
}

/// Holds the lock, which nobody else needs for long.
void ProgressThread::take_work() {
  for (const std::shared_ptr<Work>& work : std::exchange(put_, {})) {
    if (work->pieces.empty()) {
      work->is_done = true;
      done_.notify_all();
    } else if (work->queue) {
      queues_[*work->queue].work.push_back(work);
    } else {
      while (work->started < work->pieces.size()) start_piece(work);
    }
  }
}

void ProgressThread::start_pieces() {
  for (auto& [number, queue] : queues_) {
    while (!queue.work.empty()) {
      const std::shared_ptr<Work> work = queue.work.front();
      const int64_t next = work->pieces[work->started].bytes;
      if (queue.bytes > 0 && queue.bytes + next > kMostBytesUnderWay) break;
      queue.bytes += next;
      start_piece(work);
      if (work->started == work->pieces.size()) queue.work.pop_front();
    }
  }
}

bool ProgressThread::has_queued() const {
  return std::ranges::any_of(queues_, [](const auto& each) { return !each.second.work.empty(); });
}

void ProgressThread::start_piece(const std::shared_ptr<Work>& work) {
  const Piece& piece = work->pieces[work->started++];
  active_.push_back({.mpi = MPI_REQUEST_NULL, .work = work, .bytes = piece.bytes});
  if (const int code = piece.start(&active_.back().mpi); code != MPI_SUCCESS)
    on_late_(fmt::format("{} cannot begin: {}", work->what, text_of(code)));
}

/// Whether some request was completed.
bool ProgressThread::poll() {
  bool any = false;
  for (auto place = active_.begin(); place != active_.end();) {
    Work& work = *place->work;
    int is_complete = 0;
    const int code = MPI_Test(&place->mpi, &is_complete, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) on_late_(fmt::format("{}: {}", work.what, text_of(code)));
    if (is_complete == 0) {
      if (Clock::now() - work.since > timeout_) on_late_(late_text(work.what));
      ++place;
      continue;
    }
    any = true;
    if (work.queue) queues_[*work.queue].bytes -= place->bytes;
    if (++work.done == work.pieces.size()) finish(work);
    place = active_.erase(place);
  }
  return any;
}

void ProgressThread::finish(Work& work) {
  {
    const std::lock_guard lock(mutex_);
    work.is_done = true;
  }
  done_.notify_all();
}

}  // namespace trainer::mpi
