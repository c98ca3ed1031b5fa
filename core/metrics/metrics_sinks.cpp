// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/metrics_sinks.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
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
                           const std::vector<std::string>& metrics,
                           std::function<void(const std::string&)> warn)
    : directory_(directory),
      held_(std::make_shared<FileDescriptor>(open_file(directory, O_RDONLY | O_DIRECTORY))),
      formats_(formats),
      metrics_(metrics),
      warn_(std::move(warn)) {
  open();
}

void MetricsSinks::open() {
  lines_.emplace(directory_ / kLines);
  open_csv();
  open_events();
  open_prometheus();
}

bool MetricsSinks::is_wanted(const char* format) const {
  return std::ranges::find(formats_, format) != formats_.end();
}

void MetricsSinks::open_csv() {
  if (!is_wanted(kCsv)) return;
  csv_.file.emplace(held_, directory_ / "metrics.csv", directory_ / kLines, metrics_);
  csv_.missed = 0;
}

void MetricsSinks::open_events() {
  if (!is_wanted(kTensorboard)) return;
  events_.file.emplace(directory_, directory_ / kLines);
  events_.missed = 0;
}

void MetricsSinks::open_prometheus() {
  if (!is_wanted(kPrometheus)) return;
  prometheus_.file.emplace(directory_ / "metrics.prom", directory_ / kLines);
  prometheus_.missed = 0;
}

void MetricsSinks::cut(int64_t step, int64_t validated) {
  if (!lines_) return;
  lines_.reset();
  cut_metrics(directory_ / kLines, step, validated);
  open();
}

void MetricsSinks::append(MetricsRecord record) {
  if (!lines_) return;
  if (!record.time) record.time = now();
  lines_->append(record);
  const auto follow = [&](auto& follower, void (MetricsSinks::*make)()) {
    try {
      if (follower.file) return follower.file->append(record);
      // Rebuilt from the lines once these are written; less and less often, since each time all of them are
      // read.
      if (!lines_->is_behind() && std::has_single_bit(++follower.missed)) (this->*make)();
    } catch (const Error& problem) {
      if (follower.file) warn_(fmt::format("{}; the file will be rebuilt when possible", problem.what()));
      follower.file.reset();
    }
  };
  follow(csv_, &MetricsSinks::open_csv);
  follow(events_, &MetricsSinks::open_events);
  follow(prometheus_, &MetricsSinks::open_prometheus);
}

void MetricsSinks::complete() {
  if (!lines_) return;
  sync();
  if (!csv_.file) open_csv();
  if (!events_.file) open_events();
  if (!prometheus_.file) open_prometheus();
}

}  // namespace trainer
