// SPDX-License-Identifier: Apache-2.0
#include "core/step/quantized_products.h"

#include <algorithm>
#include <map>

#include "core/passes/uses.h"

namespace trainer {
namespace {

/// The parameter that these weights are made of by operations that keep their shape, or kNone.
TensorId parameter_of(const Program& program, const Entry& entry, const std::vector<int>& makers,
                      TensorId weights) {
  TensorId id = weights;
  while (id != kNone && program.tensor(id).role != Role::parameter) {
    const int maker = makers[static_cast<size_t>(id)];
    if (maker < 0) return kNone;
    const std::vector<TensorId>& inputs = entry.nodes[static_cast<size_t>(maker)].inputs;
    const auto same = std::ranges::find_if(inputs, [&](TensorId input) {
      return input != kNone && program.spec(input).shape == program.spec(weights).shape;
    });
    id = same == inputs.end() ? kNone : *same;
  }
  return id;
}

}  // namespace

std::vector<QuantizableProduct> quantizable_products(const Program& program, const Entry& entry) {
  const std::vector<int> makers = makers_of(program, entry);
  std::vector<QuantizableProduct> products;
  std::map<std::string, int> uses;
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    const Node& node = entry.nodes[n];
    auto form = node.op->quantized_form(specs_of(program.tensors, node.inputs));
    if (!form) continue;
    const TensorId weights = parameter_of(program, entry, makers, node.inputs[form->weight]);
    if (weights == kNone) continue;
    const std::string& name = program.tensor(weights).name;
    ++uses[name];
    products.push_back({.node = n, .name = name, .form = *std::move(form)});
  }
  std::erase_if(products, [&](const QuantizableProduct& product) { return uses[product.name] > 1; });
  return products;
}

Quantization quantization_of(const ValueRange& range, const ActivationLevels& levels) {
  const RangeScale found = levels.of_range(range.low, range.high);
  return {.scale = found.scale > 0 ? found.scale : 1, .zero_point = found.zero_point};
}

}  // namespace trainer
