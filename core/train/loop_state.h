// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/train/early_stop.h"
#include "core/train/guard.h"
#include "core/train/plateau.h"

namespace trainer {

/// An evaluation that was better, by one metric, than all before it.
struct BestEvaluation {
  std::string metric;
  double value = 0;
  int64_t step = 0;  ///< 0: there has been none
  bool operator==(const BestEvaluation&) const = default;
};

/// The progress of a run. With this and its tensors it continues as if it had never stopped.
struct LoopState {
  int64_t step = 0, updates = 0;     ///< done so far
  int64_t validated = 0;             ///< the step of the last evaluation
  int64_t verified = 0;              ///< the last step after which the ranks compared their weights
  int64_t interval_steps = 0;        ///< since the last line of metrics, without skipped ones
  double interval_loss = 0;          ///< their sum
  double train_loss = 0;             ///< mean of the last interval
  std::optional<double> loss_scale;  ///< if there is one
  GuardState guard;
  std::optional<EarlyStopState> early_stop;  ///< since the first evaluation of a run that has it
  std::optional<PlateauState> plateau;       ///< likewise
  std::optional<BestEvaluation> kept;        ///< of checkpoint.keep_best, since it has named that metric
  std::map<std::string, double> last, best;  ///< loss and metrics of the validation split
  /// Numbers of the samples that could not be read, by split: they count against data.error_budget.
  std::map<std::string, std::vector<int64_t>> unreadable;
  bool operator==(const LoopState&) const = default;

  /// Whether the ranks had the same weights after this step.
  bool is_verified() const { return verified > 0 && verified == step; }
  /// Whether the metric was finite and better than ever in an evaluation of the last step.
  bool is_best(const std::string& metric) const;
};

}  // namespace trainer
