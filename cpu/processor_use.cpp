// SPDX-License-Identifier: Apache-2.0
#include "cpu/processor_use.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>

namespace trainer::cpu {
namespace {

/// user, nice, system, idle, iowait, irq, softirq, steal. What guests use is part of the first two.
constexpr size_t kTicks = 8, kIdle = 3, kWaitsForDisk = 4;

/// The number of "cpu12 …", and its columns. Nothing for other lines, the sum of all processors among them.
struct ProcessorTicks {
  int processor = 0;
  std::array<double, kTicks> ticks{};
};
std::optional<ProcessorTicks> ticks_of(std::string_view line) {
  constexpr std::string_view kPrefix = "cpu";
  if (!line.starts_with(kPrefix)) return std::nullopt;
  const char* at = line.data() + kPrefix.size();
  const char* const end = line.data() + line.size();
  ProcessorTicks row;
  auto [after, error] = std::from_chars(at, end, row.processor);
  if (error != std::errc()) return std::nullopt;
  for (double& column : row.ticks) {
    while (after != end && *after == ' ') ++after;
    int64_t ticks = 0;
    const auto [next, problem] = std::from_chars(after, end, ticks);
    if (problem != std::errc() || ticks < 0) break;  // old kernels have fewer columns
    column = static_cast<double>(ticks);
    after = next;
  }
  return row;
}

}  // namespace

std::optional<ProcessorSeconds> processor_seconds(std::string_view text, const std::vector<int>& processors,
                                                  double ticks_per_second) {
  ProcessorSeconds sum;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::optional<ProcessorTicks> row = ticks_of(line);
    if (!row || std::ranges::find(processors, row->processor) == processors.end()) continue;
    for (size_t i = 0; i < kTicks; ++i) {
      sum.all += row->ticks[i] / ticks_per_second;
      if (i != kIdle && i != kWaitsForDisk) sum.busy += row->ticks[i] / ticks_per_second;
    }
  }
  if (sum.all <= 0) return std::nullopt;
  return sum;
}

double utilization(const ProcessorUse& use, double threads) {
  return std::clamp(use.own / (use.seconds * threads), 0.0, 1.0);
}

double stolen(const ProcessorUse& use, double threads) {
  const double others = use.others / use.seconds, spare = std::max(0.0, use.processors - threads);
  return std::clamp((others - spare) / threads, 0.0, 1.0);
}

}  // namespace trainer::cpu
