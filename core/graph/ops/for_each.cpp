// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/for_each.h"

#include <algorithm>

namespace trainer {

void ForEach::describe(AttributeVisitor& visit) const {
  op->describe(visit);
}

std::vector<TensorSpec> ForEach::infer(std::span<const TensorSpec> inputs) const {
  expect(!inputs.empty() && inputs.size() % inputs_of_set == 0, "takes whole sets of tensors");
  std::vector<TensorSpec> all;
  for (size_t first = 0; first < inputs.size(); first += inputs_of_set) {
    const auto set = inputs.subspan(first, inputs_of_set);
    expect(std::ranges::equal(set, inputs.first(inputs_of_set), {}, &TensorSpec::dtype, &TensorSpec::dtype),
           "all sets must have the same element types");
    const std::vector<TensorSpec> outputs = op->infer(set);
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  return all;
}

double ForEach::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  double sum = 0;
  for (size_t set = 0; set < inputs.size() / inputs_of_set; ++set) {
    sum += op->flops(inputs.subspan(set * inputs_of_set, inputs_of_set),
                     outputs.subspan(set * outputs_of_set, outputs_of_set));
  }
  return sum;
}

bool ForEach::in_place(size_t input, size_t output) const {
  return input / inputs_of_set == output / outputs_of_set &&
         op->in_place(input % inputs_of_set, output % outputs_of_set);
}

}  // namespace trainer
