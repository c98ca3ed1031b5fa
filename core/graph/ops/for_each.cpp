// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/for_each.h"

#include <algorithm>

namespace trainer {

void ForEach::describe(AttributeVisitor& visit) const {
  std::vector<std::vector<Attribute>> sets;
  for (const auto& op : ops) sets.push_back(attributes_of(*op));
  for (size_t i = 0; i < sets[0].size(); ++i) {
    Attribute shown = sets[0][i];
    std::vector<double> numbers;
    bool differs = false;
    for (const std::vector<Attribute>& set : sets) {
      differs = differs || set[i].value != shown.value;
      shown.style.hidden = shown.style.hidden && set[i].style.hidden;
      if (const auto* number = std::get_if<double>(&set[i].value)) numbers.push_back(*number);
    }
    if (differs) shown.value = numbers;
    visit(shown.name, shown.value, shown.style);
  }
}

std::vector<TensorSpec> ForEach::infer(std::span<const TensorSpec> inputs) const {
  expect(!ops.empty() && inputs.size() == ops.size() * inputs_of_set,
         "takes a set of tensors for each operation");
  std::vector<TensorSpec> all;
  for (size_t first = 0; first < inputs.size(); first += inputs_of_set) {
    const auto set = inputs.subspan(first, inputs_of_set);
    expect(std::ranges::equal(set, inputs.first(inputs_of_set), {}, &TensorSpec::dtype, &TensorSpec::dtype),
           "all sets must have the same element types");
    const std::vector<TensorSpec> outputs = ops[first / inputs_of_set]->infer(set);
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  return all;
}

double ForEach::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  double sum = 0;
  for (size_t set = 0; set < inputs.size() / inputs_of_set; ++set) {
    sum += ops[set]->flops(inputs.subspan(set * inputs_of_set, inputs_of_set),
                           outputs.subspan(set * outputs_of_set, outputs_of_set));
  }
  return sum;
}

InputRange ForEach::in_place_inputs(size_t output, size_t) const {
  const size_t set = output / outputs_of_set;
  return {set * inputs_of_set, (set + 1) * inputs_of_set};
}

bool ForEach::in_place(size_t input, size_t output) const {
  return input / inputs_of_set == output / outputs_of_set &&
         ops[output / outputs_of_set]->in_place(input % inputs_of_set, output % outputs_of_set);
}

}  // namespace trainer
