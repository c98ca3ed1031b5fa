// SPDX-License-Identifier: Apache-2.0
#include "core/data/pipeline.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <utility>

namespace trainer {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

int64_t DataPipeline::slot_count(const Loading& loading) {
  // One batch may be ready while each worker makes another. Without workers nothing is made ahead.
  return loading.kept + (loading.workers == 0 ? 0 : std::max(loading.workers + 1, loading.prefetch));
}

int64_t DataPipeline::ring_bytes(const BatchInputs& inputs, int64_t rows, const Loading& loading) {
  return slot_count(loading) * batch_bytes(inputs, rows);
}

std::shared_ptr<BatchRing> DataPipeline::open_ring(const Loading& loading) const {
  const auto count = static_cast<size_t>(slot_count(loading));
  const int64_t bytes = batch_bytes(maker_.inputs(), maker_.rows());
  if (loading.ring != nullptr) {
    const std::vector<Buffer>& slots = loading.ring->slots;
    if (slots.size() != count || slots[0].bytes() != bytes)
      throw std::logic_error("a ring is shared by pipelines with other batches");
    return loading.ring;
  }
  auto ring = std::make_shared<BatchRing>();
  for (size_t i = 0; i < count; ++i) ring->slots.push_back(loading.allocate(bytes));
  return ring;
}

DataPipeline::DataPipeline(BatchMaker maker, const Loading& loading)
    : maker_(std::move(maker)),
      kept_(loading.kept),
      ring_(open_ring(loading)),
      next_(maker_.first()),
      claimed_(next_),
      released_(next_),
      is_paused_(ring_->user != nullptr) {
  for (const Buffer& memory : ring_->slots)
    slots_.push_back({.batch = Batch(memory.data(), maker_.inputs(), maker_.rows())});
  const auto makers = static_cast<size_t>(std::max<int64_t>(1, loading.workers));
  for (size_t i = 0; i < makers; ++i) memories_.push_back(maker_.reader().make_memory());
  threads_.reserve(static_cast<size_t>(loading.workers));
  for (int64_t i = 0; i < loading.workers; ++i) {
    RowMemory& memory = *memories_[static_cast<size_t>(i)];
    threads_.emplace_back([this, &memory](const std::stop_token& stop) { work(stop, memory); });
  }
  if (ring_->user == nullptr) ring_->user = this;
}

DataPipeline::~DataPipeline() {
  interrupt_ = true;
  for (std::jthread& thread : threads_) thread.request_stop();
  if (ring_->user == this) ring_->user = nullptr;
}

bool DataPipeline::can_claim() const {
  const auto slots = static_cast<int64_t>(slots_.size());
  return !is_paused_ && claimed_ < maker_.end() && claimed_ < released_ + slots;
}

MadeBatches DataPipeline::made() {
  const std::lock_guard lock(mutex_);
  return made_so_far_;
}

void DataPipeline::work(const std::stop_token& stop, RowMemory& memory) {
  std::unique_lock lock(mutex_);
  while (can_make_.wait(lock, stop, [this] { return can_claim(); }) && !stop.stop_requested()) {
    const int64_t number = claimed_++;
    ++making_;
    lock.unlock();
    Slot& mine = slot(number);
    std::exception_ptr error;
    const double began = seconds_of(CLOCK_MONOTONIC), computed = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    try {
      maker_.make(number, mine.batch, memory, interrupt_);
    } catch (...) {
      error = std::current_exception();
    }
    const double took = seconds_of(CLOCK_MONOTONIC) - began;
    const double used = seconds_of(CLOCK_THREAD_CPUTIME_ID) - computed;
    lock.lock();
    ++made_so_far_.batches;
    made_so_far_.seconds += took;
    made_so_far_.processor_seconds += used;
    mine.error = std::move(error);
    mine.made = number;
    --making_;
    made_.notify_one();
  }
}

const Batch& DataPipeline::next(std::exception_ptr* failure) {
  if (next_ >= maker_.end()) throw std::logic_error("next() after the last batch of the pass");
  take_ring({});
  const int64_t number = next_++;
  Slot& wanted = slot(number);
  if (threads_.empty()) {
    try {
      maker_.make(number, wanted.batch, *memories_[0], interrupt_);
    } catch (...) {
      wanted.error = std::current_exception();
    }
  } else {
    wait_for(number);
  }
  if (wanted.error == nullptr) return wanted.batch;
  const std::exception_ptr error = std::exchange(wanted.error, nullptr);
  if (failure == nullptr) std::rethrow_exception(error);
  *failure = error;
  const Buffer& memory = ring_->slots[static_cast<size_t>(number) % slots_.size()];
  std::memset(memory.data(), 0, static_cast<size_t>(memory.bytes()));
  return wanted.batch;
}

void DataPipeline::wait_for(int64_t number) {
  std::unique_lock lock(mutex_);
  released_ = std::max(maker_.first(), number - kept_ + 1);
  // Notified without the lock; otherwise the worker would wake and wait for it at once.
  lock.unlock();
  can_make_.notify_one();
  lock.lock();
  made_.wait(lock, [&] { return slot(number).made == number; });
}

bool DataPipeline::ready_within(std::chrono::milliseconds time) {
  if (threads_.empty()) return true;
  const auto deadline = std::chrono::steady_clock::now() + time;
  if (!take_ring(deadline)) return false;
  std::unique_lock lock(mutex_);
  return made_.wait_until(lock, deadline, [this] { return slot(next_).made == next_; });
}

/// Stops new batches. Returns false if those in progress are not done by the deadline.
bool DataPipeline::stop_making(std::unique_lock<std::mutex>& lock, const Deadline& deadline) {
  const auto is_quiet = [this] { return making_ == 0; };
  is_paused_ = true;
  interrupt_ = true;
  if (deadline && !made_.wait_until(lock, *deadline, is_quiet)) return false;
  made_.wait(lock, is_quiet);
  interrupt_ = false;
  return true;
}

bool DataPipeline::pause(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  return stop_making(lock, deadline);
}

bool DataPipeline::take_ring(const Deadline& deadline) {
  DataPipeline* user = ring_->user;
  if (user == this && !is_paused_) return true;  // only this thread pauses
  if (user != nullptr && user != this && !user->pause(deadline)) return false;
  ring_->user = this;
  begin();
  return true;
}

void DataPipeline::restart(int64_t number) {
  next_ = number;
  if (ring_->user == this) begin();
}

/// Makes batches from next() on, as far as the ring has room.
void DataPipeline::begin() {
  {
    std::unique_lock lock(mutex_);
    stop_making(lock, {});
    for (Slot& each : slots_) each.made = -1, each.error = nullptr;
    claimed_ = released_ = next_;
    is_paused_ = false;
  }
  can_make_.notify_all();
}

}  // namespace trainer
