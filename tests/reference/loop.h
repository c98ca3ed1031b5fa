// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <typeindex>
#include <unordered_map>

#include "core/engine/backend.h"

namespace trainer::reference {

/// One use of an operation: what its loop reads and writes.
struct Call {
  const Operation& op;
  std::vector<TensorSpec> inputs, outputs;
  Slots slots;

  template <class Op>
  const Op& as() const {
    return static_cast<const Op&>(op);
  }
  bool has_input(size_t i) const { return slots.inputs[i] != nullptr; }
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

// Each file of loops adds its own.
void add_batch_norm(Loops& loops);
void add_channels(Loops& loops);
void add_convolution(Loops& loops);
void add_elementwise(Loops& loops);
void add_guards(Loops& loops);
void add_linear(Loops& loops);
void add_loss(Loops& loops);
void add_loss_scale(Loops& loops);
void add_movement(Loops& loops);
void add_optimizer(Loops& loops);
void add_pooling(Loops& loops);
void add_resample(Loops& loops);

}  // namespace trainer::reference
