// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/config/fields.h"
#include "core/graph/builder.h"
#include "core/graph/ops/counted_cross_entropy.h"

namespace trainer {

/// What logits are compared with: a label for each sample (N), each position (N, T) or each pixel (N, H, W).
struct Targets {
  TensorId labels;                                     ///< i32
  TensorId weights;                                    ///< f32 (N)
  TensorId other_labels = kNone, mix_weights = kNone;  ///< (N), of mixed samples; kNone: none are mixed
  int32_t ignored_label = kNoLabel;                    ///< of positions that count for nothing
};

/// What a loss is made of, each (1). The loss is `sum` or, where it counts, sum / weight, both of which are
/// sums over all samples, of every micro-batch and rank.
struct LossSums {
  TensorId sum;
  TensorId weight = kNone;   ///< kNone: the loss does not count
  TensorId counted = kNone;  ///< positions that it does not ignore
};

/// What training makes small.
class Loss : public Component {
 public:
  /// Of logits (N, C), (N, T, C) or (N, C, H, W), weighted sums over samples.
  virtual LossSums build(Builder& build, TensorId logits, const Targets& targets) const = 0;
  /// Whether it is a mean over counted positions, rather than over all samples.
  virtual bool counts() const { return false; }
  /// The label that metrics leave out, too; kNoLabel where it is none.
  virtual int32_t ignored_label() const { return kNoLabel; }
};
const Registry<Loss>& losses();

}  // namespace trainer
