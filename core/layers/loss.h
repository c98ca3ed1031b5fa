// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/config/fields.h"
#include "core/graph/builder.h"

namespace trainer {

/// What training makes small.
class Loss : public Component {
 public:
  /// logits (N, C), labels i32 (N), weights (N) -> (1), a weighted sum over samples.
  virtual TensorId build(Builder& build, TensorId logits, TensorId labels, TensorId weights) const = 0;
};
const Registry<Loss>& losses();

/// A number that evaluation reports, as a weighted sum over samples: "top1", "top5".
struct Metric {
  std::string name;
  std::string help;
  TensorId (*build)(Builder& build, TensorId logits, TensorId labels, TensorId weights);
};
const std::vector<Metric>& metrics();

}  // namespace trainer
