// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/sweep/sweep_table.h"

namespace trainer {

/// A trial as a sweep's page shows it.
struct ShownTrial {
  SweepRow row;
  Setting values;                ///< of each parameter; nothing if it has none that an axis can show
  std::optional<double> metric;  ///< finite: at the end, or at the rung that dropped it
  bool is_finished = false;      ///< with a finite value
};

/// What a sweep's page is made of.
struct SweepView {
  const SweepPlan& plan;
  std::filesystem::path directory;
  const TrialRecords& records;
  std::vector<TrialState> states;
  /// Finished ones, best first; then dropped ones, by later rung and value; then the others by number.
  std::vector<ShownTrial> trials;

  bool has_best() const { return !trials.empty() && trials[0].is_finished; }
  /// How many trials at the front of the list have a value of the metric.
  size_t with_metric() const;
};
SweepView view_of(const SweepPlan& plan, const std::filesystem::path& directory, const TrialRecords& records);

/// A short name for each parameter, with its condition where several set the same key.
std::vector<std::string> parameter_labels(const SweepPlan& plan);

/// The first `most` bytes of a text and "…", or all of it; whole characters.
std::string shortened(const std::string& text, size_t most);

// Tables of the page. Each is empty if it has nothing to show.
std::string beside_section(const SweepView& view);
std::string rungs_section(const SweepView& view);
std::string failures_section(const SweepView& view);
std::string trials_section(const SweepView& view);

}  // namespace trainer
