// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/decode_rate.h"

#include <atomic>
#include <memory>

#include "core/data/formats.h"
#include "core/host/process.h"
#include "core/recipe/feed.h"

namespace trainer {
namespace {

/// On a disk that keeps the core waiting the measurement ends all the same.
constexpr double kPatience = 5;

}  // namespace

DecodeRate measure_decode_rate(const Job& job, double seconds) {
  const std::unique_ptr<DataSource> source =
      open_source(job.spec.recipe().data, source_request(job.spec, Split::train));
  const BatchMaker maker = training_batches(job, *source);
  const Buffer memory = allocate_host(batch_bytes(maker.inputs(), maker.rows()));
  Batch batch(memory.data(), maker.inputs(), maker.rows());
  const std::unique_ptr<RowMemory> own = maker.reader().make_memory();
  const std::atomic<bool> interrupt = false;
  maker.make(maker.first(), batch, *own, interrupt);  // opens files and allocates
  const double end = steady_seconds() + kPatience * seconds, begin = thread_seconds();
  DecodeRate rate;
  for (int64_t number = maker.first() + 1; number < maker.end(); ++number) {
    maker.make(number, batch, *own, interrupt);
    rate.samples += maker.rows();
    rate.seconds = thread_seconds() - begin;
    if (rate.seconds >= seconds || steady_seconds() >= end) break;
  }
  return rate;
}

}  // namespace trainer
