// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/rng.h"
#include "core/config/fields.h"

namespace trainer {

/// Whether training samples are mixed with others. Both given: each sample is mixed one way or the other,
/// with equal probability.
struct Mix {
  double mixup = 0, cutmix = 0;  ///< alpha of Beta(alpha, alpha); 0: not that way

  void declare(Fields& fields);
  bool any() const { return mixup > 0 || cutmix > 0; }
};

/// The mixture for one row of a batch: within the window, `kept` times itself and 1 - kept times its partner.
struct Mixing {
  int64_t partner = 0;  ///< number of the other sample within the global batch
  int64_t top = 0, left = 0, height = 0, width = 0;
  float kept = 1;
  float mix_weight = 1;  ///< of the row's own label; the partner's has the rest
};

/// The mixing of sample `row` of a step: a pure function of (key, step, row), whatever the micro-batches. The
/// partner is `row + shift` modulo the global batch (at least 2), shift in [1, global batch) drawn once a
/// step: so each sample is partner of exactly one other.
class MixingDraw {
 public:
  MixingDraw(const Mix& mix, uint64_t seed, int64_t global_batch)
      : mix_(mix), key_(random_key(seed, "mix")), global_batch_(global_batch) {}
  Mixing draw(int64_t step, int64_t row, int64_t height, int64_t width) const;

 private:
  Mix mix_;
  uint64_t key_;
  int64_t global_batch_;
};

/// A draw from Beta(alpha, alpha), alpha > 0.
double draw_beta(double alpha, RandomStream& random);

}  // namespace trainer
