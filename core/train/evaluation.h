// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/agreement.h"
#include "core/engine/outputs.h"
#include "core/tasks/confusion_matrix.h"
#include "core/tasks/metric.h"
#include "core/tasks/score_counts.h"
#include "core/train/batch_feed.h"

namespace trainer {

/// Passes over a validation split.
class Evaluation {
 public:
  /// With `averages` each batch goes through the averaged weights too; their outputs are named "ema_…".
  /// `known`: sums of the split that need no computation. `shape`: of the confusion matrix of `evaluate`'s
  /// cells, if it outputs any; `scores`: of its logits, likewise.
  Evaluation(Executable& executable, DataPipeline& data, int64_t samples, std::vector<Metric> metrics,
             bool averages, std::map<std::string, double> known = {}, const ConfusionShape& shape = {},
             const ScoreShape& scores = {});

  /// Host memory for the confusion matrices of a program, and for the cells of its batches in flight.
  static int64_t matrix_bytes(const Plan& plan, const ConfusionShape& matrix);
  /// The same for the counts of scores.
  static int64_t score_bytes(const Plan& plan, const ScoreShape& scores);

  /// One pass, each batch a round: each metric's value, from the sums of the outputs of `evaluate`. They are
  /// added in the order of the batches, whichever rank has computed them. Nothing if the ranks agree to
  /// stop before the end.
  std::optional<std::map<std::string, double>> run(Agreement& agreement);

  /// Of the last run, by the prefix of its metrics: "", and "ema_" for averaged weights. Empty
  /// if `evaluate` outputs no cells.
  std::map<std::string, const ConfusionMatrix*> matrices() const;

 private:
  struct Pass {
    size_t entry;
    std::string prefix;
    Outputs outputs;
    std::optional<ConfusionMatrix> matrix;
    std::optional<ScoreCounts> scores;
    std::vector<double> values = {};  ///< of all ranks' batches in turn, one per output
  };

  void enqueue(Agreement& agreement);
  std::nullopt_t abandon(Agreement& agreement, int64_t in_flight);
  void take(Pass& pass, size_t batch, bool counts);
  std::map<std::string, double> sums(ProcessGroup& group);
  void add_up_counts(ProcessGroup& group);
  double counted_value(const Metric& metric) const;
  std::map<std::string, double> values(const std::map<std::string, double>& sums) const;

  Executable& executable_;
  BatchFeed feed_;
  int64_t samples_;
  std::vector<Metric> metrics_;
  std::map<std::string, double> known_;
  std::vector<Pass> passes_;
};

}  // namespace trainer
