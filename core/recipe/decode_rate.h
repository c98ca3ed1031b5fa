// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "core/recipe/job.h"

namespace trainer {

/// The speed at which one core makes samples: it reads and decodes them, and augments those of training.
struct DecodeRate {
  int64_t samples = 0;
  double seconds = 0;  ///< of a processor: waiting for a disk does not count
  double per_second() const { return static_cast<double>(samples) / seconds; }
};

/// Calls `make` on the calling thread with the numbers from `begin` on, below `end`, until the calls have
/// taken this many seconds of a processor, or five times as long by the clock. Each returns the samples that
/// it made.
DecodeRate measure_rate(int64_t begin, int64_t end, double seconds,
                        const std::function<int64_t(int64_t)>& make);

/// The same for a job's micro-batches; the first one does not count. Throws Error as the start of a run does.
DecodeRate measure_decode_rate(const Job& job, double seconds);

}  // namespace trainer
