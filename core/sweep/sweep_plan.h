// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/metrics/metrics.h"
#include "core/recipe/recipe.h"
#include "core/search/observation.h"
#include "core/sweep/sweep_check.h"

namespace trainer {

/// One setting of a sweep.
struct TrialSetting {
  std::vector<std::string> overrides;  ///< of the recipe: "optimizer.lr=0.1"; none: as written
  std::optional<Setting> values;       ///< nothing if it is not in the space: tpe does not learn from it
  std::vector<std::string> texts;      ///< the value of each parameter, for tables; "" if it has none
};

/// What a recipe's section `sweep` asks for, resolved. Never changes.
class SweepPlan {
 public:
  /// all: refuses keys and values that the recipe refuses, a metric that it does not measure, rungs between
  /// evaluations, too few or too many trials. none: of a sweep that is only shown.
  enum class Check { all, none };
  /// Throws one Error (exit 78) with all problems.
  SweepPlan(const RecipeSource& source, std::vector<std::string> overrides, Check check = Check::all);

  const Recipe& recipe() const { return *recipe_; }
  const SweepSection& section() const { return recipe_->sweep; }
  const std::vector<std::string>& overrides() const { return overrides_; }
  const Space& space() const { return space_; }
  const std::string& metric() const { return metric_; }
  bool maximizes() const { return maximizes_; }
  int64_t trials() const { return trials_; }
  /// Names of the parameters, for tables; parameters of one key have one column.
  const std::vector<std::string>& columns() const { return columns_; }
  /// The durations after which settings are compared, without the last: run.max_duration.
  const std::vector<Duration>& rungs() const { return rungs_; }
  /// The override of each training of a setting; one empty text if nothing repeats.
  const std::vector<std::string>& repeats() const { return repeats_; }

  /// A setting by its number. `earlier`: what is known of those before it; only tpe reads it, and `known`,
  /// the results of other sweeps.
  TrialSetting setting(int64_t number, const std::vector<Observation>& earlier,
                       const std::vector<Observation>& known) const;
  /// The recipe with further overrides. Throws Error (exit 78).
  std::shared_ptr<const Recipe> with(const std::vector<std::string>& more) const;
  /// Whether the recipe's file still says the same. Throws Error (exit 78) if it cannot be read.
  bool is_unchanged() const;
  /// Whether it is known from the start.
  bool is_fixed(int64_t number) const;
  /// The setting with these texts of parameters; nothing if it is not in the space.
  std::optional<Setting> values_of(const std::vector<std::string>& texts) const;
  /// Whether `a` is a better value of the metric than `b`.
  bool is_better(double a, double b) const { return maximizes_ ? a > b : a < b; }

 private:
  void settle_direction(Diagnostics& diagnostics);
  void settle_rungs(Diagnostics& diagnostics);
  void settle_count(Diagnostics& diagnostics);
  TrialSetting described(const Setting& values) const;
  TrialSetting as_written(const Recipe& recipe, std::vector<std::string> words) const;

  RecipeSource source_;
  std::vector<std::string> overrides_;
  std::shared_ptr<const Recipe> recipe_;
  Space space_;
  std::vector<std::string> columns_;
  std::vector<size_t> column_of_;  ///< each parameter's
  std::string metric_;
  bool maximizes_ = false;
  int64_t trials_ = 0;
  std::vector<Duration> rungs_;
  std::vector<std::string> repeats_;
  std::vector<TrialSetting> first_;  ///< the recipe as written, and those of `try`
  std::vector<Setting> grid_;
};

}  // namespace trainer
