// SPDX-License-Identifier: Apache-2.0
#include "core/graph/builder.h"

#include <algorithm>
#include <stdexcept>

#include "core/graph/operation.h"
#include "core/graph/ops/assign.h"

namespace trainer {

std::vector<TensorId> Builder::emit_all(std::shared_ptr<const Operation> op, std::vector<TensorId> inputs) {
  const size_t count = op->input_count().value_or(inputs.size());
  inputs.resize(std::max(count, inputs.size()), kNone);
  std::vector<TensorId> outputs;
  try {
    for (TensorSpec& spec : op->infer(specs_of(program_.tensors, inputs))) {
      outputs.push_back(program_.add({.name = "", .spec = std::move(spec), .role = role_, .initial = {}}));
    }
  } catch (const std::invalid_argument& problem) {
    fail_at(origin_, problem.what());
  } catch (const TooLarge& problem) {
    fail_at(origin_, problem.what());
  }
  entry_.nodes.push_back({.op = std::move(op),
                          .inputs = std::move(inputs),
                          .outputs = outputs,
                          .origin = origin_,
                          .phase = phase_});
  return outputs;
}

void Builder::assign(TensorId state, TensorId value) {
  emit_all(std::make_shared<Assign>(), {state, value});
}

}  // namespace trainer
