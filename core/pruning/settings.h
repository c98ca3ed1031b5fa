// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer {

/// How weights are pruned while a network is trained. The share that is taken out grows from 0 after the step
/// `begin` to `sparsity` after the step `end`, fast at first (Zhu and Gupta, "To prune, or not to prune",
/// 2017). If `begin` is `end`, all are taken out at once.
struct PruningSettings {
  double sparsity = 0;  ///< in (0, 1)
  int64_t begin = 0, end = 0;
  int64_t every = 1;         ///< steps between two updates of the masks; the last one is after `end`
  bool is_global = false;    ///< the share is one of all weights together, not of each tensor
  bool two_of_four = false;  ///< see mask_two_of_four

  /// Whether masks change after this step.
  bool is_due(int64_t step) const;
  /// The share that is taken out once this step is done, by the last update until then.
  double share_after(int64_t step) const;
};

}  // namespace trainer
