// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/job.h"

namespace trainer {

/// The speed at which one core makes samples of training: it reads, decodes and augments them.
struct DecodeRate {
  int64_t samples = 0;
  double seconds = 0;  ///< of a processor: waiting for a disk does not count
  double per_second() const { return static_cast<double>(samples) / seconds; }
};

/// Makes micro-batches on the calling thread until they have taken this many seconds of a processor, or five
/// times as long by the clock; the first one does not count. Throws Error as the start of a run does.
DecodeRate measure_decode_rate(const Job& job, double seconds);

}  // namespace trainer
