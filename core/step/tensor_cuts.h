// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// The parameters that ranks along Axis::tensor share, and how each is cut. A product is cut by its outputs,
/// and the one that reads them, perhaps after attention or element-wise functions, by its inputs: so neither
/// exchanges anything in between (Shoeybi et al., "Megatron-LM", 2019). Logits are cut by classes if a loss
/// or metrics alone read them; embeddings by the vocabulary.
struct TensorCuts {
  std::map<TensorId, Sections> parameters;
  /// Of these products' outputs in any entry the sections, and of the tensors up to the next products.
  std::map<TensorId, std::vector<int64_t>> features;

  /// A product that could be cut if the ranks divided its features.
  struct Uneven {
    std::string layer;
    int64_t features;
  };
  std::optional<Uneven> uneven = {};

  bool has(TensorId parameter) const { return parameters.contains(parameter); }
};

/// The cuts that all entries allow. Evaluation's output of its logits, which nothing in training reads, is no
/// obstacle. Throws Error (exit 78) at an operation whose features `ranks` do not
/// divide, such as attention with fewer heads.
TensorCuts find_tensor_cuts(const Program& program, int64_t ranks);

}  // namespace trainer
