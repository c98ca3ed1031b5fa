// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trainer {

/// A name that a pickle by torch.save may refer to (torch/_weights_only_unpickler.py lists more).
struct TorchName {
  enum class Role {
    ordered_dict,       ///< makes a map
    rebuild_tensor,     ///< (storage, offset, shape, strides, requires_grad, hooks)
    rebuild_of_type,    ///< the same and the type of the elements
    rebuild_parameter,  ///< (tensor, requires_grad, hooks)
    storage,            ///< `dtype` is that of its elements
    element_type,       ///< torch.float32
    ignored             ///< its values are no tensors
  };
  std::string_view name;  ///< module and name with a blank between, as pickles write them
  Role role;
  std::string_view dtype;  ///< safetensors's name of the type, if it has one
};

std::span<const TorchName> torch_names();

/// Why any other name is refused, and the remedy.
std::string refusal_of(std::string_view name);

}  // namespace trainer
