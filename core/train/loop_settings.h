// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/order.h"
#include "core/graph/program.h"
#include "core/optim/plateau.h"
#include "core/pruning/settings.h"
#include "core/tasks/metric.h"
#include "core/tasks/score_counts.h"
#include "core/train/early_stop.h"
#include "core/train/guard.h"

namespace trainer {

/// Lengths and cadences of a run, in steps.
struct LoopSettings {
  int64_t steps = 0;
  int64_t pause_after = 0;  ///< this step; 0: never
  int64_t epochs = 0;       ///< 0 if the run's length is given in batches
  int64_t samples_per_epoch = 0;
  BatchSplit batch;
  int64_t tokens_of_sample = 0;     ///< 0: samples are not sequences of tokens
  int64_t validation_interval = 0;  ///< 0: only at the end
  int64_t logging_interval = 50;
  int64_t verify_interval = 0;  ///< of the ranks' weights; 0: never
  int64_t data_workers = 0;     ///< for advice, as are `cores`: those that the rank may use
  int64_t cores = 1;
  double step_flops = 0;          ///< of all ranks
  double arithmetic_seconds = 0;  ///< of a step at the device's full rates; 0 if these are not known
  int64_t energy_readers = 1;     ///< ranks that read the same counter of energy
  int64_t validation_samples = 0;
  std::vector<Metric> metrics = {loss_metric()};  ///< of the validation split, the loss first
  std::map<std::string, double> known_sums;       ///< for these metrics, see sum_name
  ConfusionShape matrix;                          ///< of the classes that the network distinguishes
  ScoreShape scores;                              ///< likewise
  GuardSettings guard;
  std::optional<std::string> best_metric;  ///< one of `metrics`: the one that ranks evaluations
  std::optional<EarlyStopSettings> early_stop;
  std::optional<PlateauSettings> plateau;  ///< of the learning rate
  std::optional<PruningSettings> pruning;
  std::vector<PrunedWeight> pruned;  ///< by that
  int64_t rounds_from = 0;           ///< the step from which on factors of products are rounded
  bool averages = false;             ///< averaged weights are evaluated too, as `ema_loss`, `ema_top1`, …
};

/// The direction of one of the metrics. Throws std::out_of_range if it is not evaluated.
Direction direction_in(const LoopSettings& settings, const std::string& metric);

/// Metrics in a validation line besides the loss.
std::vector<std::string> validation_metrics(const LoopSettings& settings);

}  // namespace trainer
