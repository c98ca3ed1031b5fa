// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <typeindex>
#include <unordered_map>

#include "core/engine/device.h"

namespace trainer::reference {

/// One use of an operation: the inputs and outputs of its loop.
struct Call {
  const Operation& op;
  std::vector<TensorSpec> inputs, outputs;
  Slots slots;
  bool rounds = false;  ///< values written to a low type are rounded

  template <class Op>
  const Op& as() const {
    return static_cast<const Op&>(op);
  }
  bool has_input(size_t i) const { return i < slots.inputs.size() && slots.inputs[i] != nullptr; }
  bool has_output(size_t i) const { return i < slots.outputs.size() && slots.outputs[i] != nullptr; }

  template <class T = double>
  const T* in(size_t i) const {
    return static_cast<const T*>(*slots.inputs[i]);
  }
  template <class T = double>
  T* out(size_t i) const {
    return static_cast<T*>(*slots.outputs[i]);
  }
  const Shape& shape_in(size_t i) const { return inputs[i].shape; }
  const Shape& shape_out(size_t i) const { return outputs[i].shape; }
  int64_t count_in(size_t i) const { return numel(inputs[i].shape); }
  int64_t count_out(size_t i) const { return numel(outputs[i].shape); }
};

using Loop = void (*)(const Call&);
using Loops = std::unordered_map<std::type_index, Loop>;

}  // namespace trainer::reference
