// SPDX-License-Identifier: Apache-2.0
#include "core/train/metrics_sinks.h"

#include <algorithm>
#include <chrono>

namespace trainer {
namespace {

constexpr const char* kLines = "metrics.jsonl";

/// In Unix seconds, whole milliseconds: more digits would only make the lines longer.
double now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) / 1e3;
}

}  // namespace

MetricsSinks::MetricsSinks(const std::filesystem::path& directory, const std::vector<std::string>& formats,
                           const std::vector<std::string>& metrics)
    : directory_(directory), formats_(formats), metrics_(metrics) {
  open();
}

void MetricsSinks::open() {
  const auto wanted = [&](const char* name) { return std::ranges::find(formats_, name) != formats_.end(); };
  lines_.emplace(directory_ / kLines);
  if (wanted(kCsv)) csv_.emplace(directory_ / "metrics.csv", directory_ / kLines, metrics_);
  if (wanted(kTensorboard)) events_.emplace(directory_, directory_ / kLines);
}

void MetricsSinks::cut(int64_t step, int64_t validated) {
  lines_.reset();
  cut_metrics(directory_ / kLines, step, validated);
  open();
}

void MetricsSinks::append(MetricsRecord record) {
  if (!record.time) record.time = now();
  lines_->append(record);
  if (csv_) csv_->append(record);
  if (events_) events_->append(record);
}

}  // namespace trainer
