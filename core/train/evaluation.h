// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/engine/agreement.h"
#include "core/engine/outputs.h"
#include "core/train/batch_feed.h"

namespace trainer {

/// Passes over a validation split.
class Evaluation {
 public:
  /// With `averages` each batch goes through the averaged weights too, whose results are named "ema_…".
  Evaluation(Executable& executable, DataPipeline& data, int64_t samples, bool averages);

  /// One pass, each batch a round: the mean over the samples of each number that `evaluate` puts out. Nothing
  /// where the ranks agree to stop before the end.
  std::optional<std::map<std::string, double>> run(Agreement& agreement);

 private:
  struct Pass {
    size_t entry;
    std::string prefix;
    Outputs outputs;
  };

  void enqueue(Agreement& agreement);
  std::nullopt_t abandon(Agreement& agreement, int64_t in_flight);
  void add(Pass& pass, std::map<std::string, double>& sums);

  Executable& executable_;
  BatchFeed feed_;
  int64_t samples_;
  std::vector<Pass> passes_;
};

}  // namespace trainer
