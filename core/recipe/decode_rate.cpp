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

DecodeRate measure_rate(int64_t begin, int64_t end, double seconds,
                        const std::function<int64_t(int64_t)>& make) {
  const double patience_ends = steady_seconds() + kPatience * seconds, began = thread_seconds();
  DecodeRate rate;
  for (int64_t number = begin; number < end; ++number) {
    rate.samples += make(number);
    rate.seconds = thread_seconds() - began;
    if (rate.seconds >= seconds || steady_seconds() >= patience_ends) break;
  }
  return rate;
}

DecodeRate measure_decode_rate(const Job& job, double seconds) {
  const std::unique_ptr<DataSource> source =
      open_source(job.spec.recipe().data, source_request(job.spec, Split::train));
  const BatchMaker maker = training_batches(job, *source);
  const Buffer memory = allocate_host(batch_bytes(maker.inputs(), maker.rows()));
  Batch batch(memory.data(), maker.inputs(), maker.rows());
  const std::unique_ptr<RowMemory> own = maker.reader().make_memory();
  const std::atomic<bool> interrupt = false;
  maker.make(maker.first(), batch, *own, interrupt);  // opens files and allocates
  return measure_rate(maker.first() + 1, maker.end(), seconds, [&](int64_t number) {
    maker.make(number, batch, *own, interrupt);
    return maker.rows();
  });
}

}  // namespace trainer
