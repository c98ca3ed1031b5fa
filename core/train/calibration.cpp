// SPDX-License-Identifier: Apache-2.0
#include "core/train/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/graph/names.h"
#include "core/step/quantized_products.h"
#include "core/train/batch_feed.h"

namespace trainer {
namespace {

/// The product that an output belongs to, if its name begins like this.
std::optional<std::string> product_of(const std::string& output, std::string_view prefix) {
  if (!output.starts_with(prefix)) return std::nullopt;
  return output.substr(prefix.size());
}

class Observer {
 public:
  Observer(const Executable& executable, const RangeObservation& observation)
      : executable_(executable), observation_(observation) {}

  /// Adds the outputs of a run.
  void add(const PlannedEntry& entry, int64_t batch) {
    for (const NamedTensor& output : entry.outputs) {
      if (const auto product = product_of(output.name, observed_name::kExtremes))
        add_extremes(*product, executable_.read(output.tensor), batch);
      if (const auto product = product_of(output.name, observed_name::kCounts))
        add_counts(*product, executable_.read<int32_t>(output.tensor));
    }
  }

  ObservedInputs take() { return std::move(seen_); }

 private:
  void add_extremes(const std::string& product, const std::vector<float>& extremes, int64_t batch) {
    if (!std::isfinite(extremes[0]) || !std::isfinite(extremes[1]))
      throw Error(
          ExitCode::data,
          fmt::format("the input of '{}' has infinite or NaN values in batch {} of the calibration, so "
                      "it has no range; check the samples and the weights",
                      product, batch));
    const ValueRange range{.low = extremes[0], .high = extremes[1]};
    const auto [all, fresh] = seen_.extremes.emplace(product, range);
    if (fresh) return;
    all->second = {.low = std::min(all->second.low, range.low),
                   .high = std::max(all->second.high, range.high)};
  }

  void add_counts(const std::string& product, const std::vector<int32_t>& counts) {
    ValueCounts& all = seen_.counts[product];
    all.range = observation_.ranges.at(product);
    all.counts.resize(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) all.counts[i] += counts[i];
  }

  const Executable& executable_;
  const RangeObservation& observation_;
  ObservedInputs seen_;
};

}  // namespace

ObservedInputs observe_inputs(Executable& executable, DataPipeline& data, const RangeObservation& observation,
                              const std::function<void()>& between) {
  const size_t entry = executable.entry(entry_name::kPredict);
  BatchFeed feed(executable, data);
  Observer observer(executable, observation);
  for (int64_t batch = 1; data.remaining() > 0; ++batch) {
    between();
    feed.next();
    executable.run(entry);
    feed.done();
    observer.add(executable.plan().entries[entry], batch);
  }
  return observer.take();
}

}  // namespace trainer
