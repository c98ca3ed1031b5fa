// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/data/batch_maker.h"
#include "core/engine/buffer.h"

namespace trainer {

class DataPipeline;

/// Memory of a ring of batches. Pipelines of one consumer may share it: it belongs to the one called last,
/// and another makes its batches again on its next call.
struct BatchRing {
  std::vector<Buffer> slots;
  DataPipeline* user = nullptr;
};

/// What worker threads have made, and how long that took them.
struct MadeBatches {
  int64_t batches = 0;
  double seconds = 0;            ///< of workers, all together
  double processor_seconds = 0;  ///< of these, those in which they computed: the rest waited for a disk
};

/// Threads and ring of a pipeline. Batches are bitwise identical for all values.
struct Loading {
  int64_t workers = 1;   ///< 0: next() makes each batch on the caller's thread
  int64_t prefetch = 2;  ///< batches made ahead; never fewer than workers + 1
  int64_t kept = 1;      ///< number of last batches that stay unchanged, until another pipeline is called
  Allocator allocate = allocate_host;
  std::shared_ptr<BatchRing> ring = nullptr;  ///< another pipeline's, of equal batches; else one is allocated
};

/// The next micro-batch, made ahead of time by worker threads in a bounded ring. For one consumer at a time.
class DataPipeline {
 public:
  DataPipeline(BatchMaker maker, const Loading& loading);
  ~DataPipeline();
  DataPipeline(const DataPipeline&) = delete;
  DataPipeline& operator=(const DataPipeline&) = delete;

  /// Batches in order; the reference is valid for `kept` calls, this one included. Allocates nothing. A
  /// batch's error is thrown in its place; with `failure` it is stored there instead, and the batch is all
  /// zeros.
  const Batch& next(std::exception_ptr* failure = nullptr);

  /// Micro-batches left: the whole pass after restart(); practically without end in training.
  int64_t remaining() const { return maker_.end() - next_; }

  /// Waits at most `time` for the next batch, another pipeline's last reads included. Returns whether it is
  /// ready.
  bool ready_within(std::chrono::milliseconds time);

  /// By this pipeline's worker threads so far.
  MadeBatches made();

  int64_t rows() const { return maker_.rows(); }
  /// The contents of each batch.
  const BatchInputs& inputs() const { return maker_.inputs(); }

  /// Back to the first batch, or to where training continues: micro-batch `number`.
  /// If another pipeline has the ring, it is taken over only when a batch is requested.
  void restart() { restart(maker_.first()); }
  void restart(int64_t number);

  /// For a pipeline that is to share it.
  const std::shared_ptr<BatchRing>& ring() const { return ring_; }
  /// Bytes that a ring asks its allocator for, one buffer per slot.
  static int64_t ring_bytes(const BatchInputs& inputs, int64_t rows, const Loading& loading);

 private:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;  ///< none: however long it takes

  struct Slot {
    Batch batch;
    int64_t made = -1;  // number of the micro-batch that it holds
    std::exception_ptr error;
  };

  static int64_t slot_count(const Loading& loading);
  std::shared_ptr<BatchRing> open_ring(const Loading& loading) const;
  bool take_ring(const Deadline& deadline);
  void begin();
  bool pause(const Deadline& deadline);
  bool stop_making(std::unique_lock<std::mutex>& lock, const Deadline& deadline);
  Slot& slot(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }
  bool can_claim() const;
  void wait_for(int64_t number);
  void work(const std::stop_token& stop, RowMemory& memory);

  BatchMaker maker_;
  int64_t kept_;
  std::shared_ptr<BatchRing> ring_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<RowMemory>> memories_;  // one per thread that makes batches
  int64_t next_;  // number of the batch that next() returns; the consumer's own

  std::mutex mutex_;  // guards the members below, and a slot's `made` and `error`
  int64_t claimed_;   // batches below it are made or in the making
  int64_t released_;  // batches below it are no longer in use by the consumer
  int64_t making_ = 0;
  MadeBatches made_so_far_;
  bool is_paused_;  // nothing is started: another pipeline has the ring, or this one is being restarted
  std::condition_variable_any can_make_;
  std::condition_variable made_;
  std::atomic<bool> interrupt_ = false;
  std::vector<std::jthread> threads_;  // last, so that threads end before the members they use
};

}  // namespace trainer
