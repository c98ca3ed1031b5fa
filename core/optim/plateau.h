// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// When the learning rate drops, as in PyTorch's ReduceLROnPlateau, with evaluations instead of epochs.
struct PlateauSettings {
  std::string metric = "loss";
  double factor = 0.1;    ///< the rate is multiplied by it
  int64_t patience = 10;  ///< evaluations without improvement that are tolerated; the next one drops the rate
  double threshold =
      1e-4;  ///< an improvement is larger: a part of the best value or, `absolute`, a difference
  bool absolute = false;
  int64_t cooldown = 0;   ///< evaluations after a drop in which nothing is counted
  double min_factor = 0;  ///< of the base rate
};

}  // namespace trainer
