// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/config/fields.h"
#include "core/graph/builder.h"

namespace trainer {

/// What logits are compared with: a label for each sample (N), each position (N, T) or each pixel (N, H, W).
struct Targets {
  TensorId labels;                                     ///< i32
  TensorId weights;                                    ///< f32 (N)
  TensorId other_labels = kNone, mix_weights = kNone;  ///< (N), of mixed samples; kNone: none are mixed
};

/// What training makes small.
class Loss : public Component {
 public:
  /// logits (N, C), (N, T, C) or (N, C, H, W) -> (1), a weighted sum over samples.
  virtual TensorId build(Builder& build, TensorId logits, const Targets& targets) const = 0;
};
const Registry<Loss>& losses();

}  // namespace trainer
