// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// Which weights are pruned: of those that convolutions and linear layers multiply by, and training changes.
/// A table of tokens is none of them, even if a linear layer shares it.
struct PruneSpec {
  std::vector<std::string> only;    ///< patterns of names; empty: all
  std::vector<std::string> except;  ///< likewise, of those
  bool two_of_four = false;         ///< of four neighbours along the input features two are pruned
  std::function<Origin(const std::string& key)>
      origin_of;  ///< the place of a key of compression.prune, or of it
};

/// Those of a network's forward part. Throws Error (exit 78) if there are none, if a pattern matches no
/// weight, or if the input features of one have to be divided by four and cannot.
std::vector<PrunedWeight> pruned_weights(const Program& program, const PruneSpec& spec);

}  // namespace trainer
