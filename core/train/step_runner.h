// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/agreement.h"
#include "core/engine/outputs.h"
#include "core/step/step_report.h"
#include "core/train/batch_feed.h"
#include "core/train/trace.h"

namespace trainer {

/// A training step's outputs and times.
struct StepResult {
  StepReport report;
  double data_wait = 0;                ///< seconds until its batches were made
  double data_waited = 0;              ///< seconds of such waits of all steps, until it was taken
  double host = 0;                     ///< seconds that the host took to enqueue it, without waiting
  std::optional<PhaseSeconds> phases;  ///< if the step was timed
  Vote decided;                        ///< by all ranks, from the votes that went with the step
};

/// Enqueues training steps, each a round of the ranks' agreement, and returns their results in order. On an
/// asynchronous device several steps are in flight; the host waits for it only to get a free slot.
class StepRunner {
 public:
  StepRunner(Executable& executable, DataPipeline& data, int64_t micro_batches, Agreement& agreement);

  /// The next step is this one: its batches come next.
  void start_at(int64_t step);
  /// Waits for the next step's first batch. Returns false if `give_up` returns true first.
  bool await_data(const std::function<bool()>& give_up);
  /// Enqueues one global batch and its update, with this rank's vote. At most kMaxInFlight steps may be in
  /// flight then. Errors in the data of one rank of several are noted in the agreement.
  void enqueue(int64_t step, bool timed);

  int64_t last_enqueued() const { return last_enqueued_; }
  int64_t in_flight() const { return static_cast<int64_t>(steps_.size()); }
  /// A step is taken when this many later ones are enqueued, whatever is ready: 0 on a synchronous device.
  int64_t lag() const { return executable_.plan().is_async ? kMaxInFlight - 1 : 0; }
  /// Waits for the oldest step in flight, and for the votes of all ranks.
  StepResult take();

  /// Repeats a step and returns the place of its first infinite or NaN value, on the first rank that finds
  /// one: each searches by itself, and all must. Steps in flight finish first and can still be taken
  /// afterwards. Errors are only reported: they must not hide the reason for the search.
  std::string find_non_finite(int64_t step);

  MadeBatches made() const { return feed_.pipeline().made(); }

  /// Notes waits for data, until it is null.
  void follow(Trace* trace) { trace_ = trace; }

 private:
  /// The number of batches in the feed's slots, and one more.
  static constexpr int64_t kMaxInFlight = 4;

  struct InFlight {
    int64_t step;
    std::optional<size_t> stopwatch;  ///< of its own among the steps in flight; none if it is not timed
    double data_wait = 0, host = 0;
    std::optional<PhaseSeconds> phases = {};  ///< known so far
    std::optional<Vote> decided = {};         ///< if all ranks' votes were requested already
  };

  std::optional<std::string> search(int64_t step);
  void make_room(int64_t step, int64_t batch);
  void next_batch();
  size_t free_stopwatch() const;
  void run(size_t entry, InFlight& step);
  /// The entry point for a step's micro-batch i, and its outputs.
  struct Batches {
    size_t entry;
    Outputs outputs;
  };
  Batches& of_batch(int64_t i);
  PhaseSeconds phases_later(size_t stopwatch);

  Executable& executable_;
  BatchFeed feed_;
  int64_t micro_batches_;
  Agreement& agreement_;
  int64_t last_enqueued_ = 0;                   ///< step
  std::optional<Batches> first_, next_, last_;  ///< the last differs if ranks add up its results
  std::optional<Batches> update_;               ///< after the last, if there are several
  std::vector<InFlight> steps_;                 ///< the oldest first
  std::optional<StepReader> reader_;            ///< of the entry that updates
  double waited_ = 0;                           ///< for the next step's data, so far
  double data_waited_ = 0;                      ///< for all batches so far
  Trace* trace_ = nullptr;
};

}  // namespace trainer
