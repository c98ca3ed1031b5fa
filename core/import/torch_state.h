// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/import/pickle.h"
#include "core/import/torch_tensor.h"

namespace trainer {

struct TorchState {
  std::vector<TorchTensor> tensors;  ///< in the order of the state dict
  std::vector<std::string> remarks;  ///< what was ignored or renamed
};

/// The state dict in a checkpoint: below `state_dict`, `model` or `model_state_dict`, or the value itself.
/// Removes the prefix `module.` that all names have. Throws Error (exit 65) if there is none, and for tensors
/// that no layer reads as they are, such as those of a weight norm.
TorchState read_torch_state(const Pickle& pickle, const PickleValue& value);

}  // namespace trainer
