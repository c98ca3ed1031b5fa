// SPDX-License-Identifier: Apache-2.0
#include "core/export/prepared_weights.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/quantize.h"

namespace trainer {
namespace {

template <class T>
void give(std::span<const T> values, const ByteSink& sink) {
  sink(std::as_bytes(values));
}

}  // namespace

PreparedWeights::PreparedWeights(Program program, Biases biases)
    : program_(std::move(program)), biases_(biases) {
  for (const Entry& entry : program_.entries) {
    for (const Node& node : entry.nodes) {
      if (const auto* scales = dynamic_cast<const ProductScales*>(node.op.get()); scales != nullptr)
        beside_[node.inputs[ProductScales::kWeight]] = {node.inputs[ProductScales::kBias], scales->x.scale};
      const bool is_made_here = dynamic_cast<const FoldBatchNorm*>(node.op.get()) != nullptr ||
                                dynamic_cast<const QuantizeWeights*>(node.op.get()) != nullptr;
      if (!is_made_here) continue;
      for (const TensorId made : node.outputs) makers_.emplace(made, node);
    }
  }
}

const Node* PreparedWeights::maker_of(TensorId tensor) const {
  const auto found = makers_.find(tensor);
  return found == makers_.end() ? nullptr : &found->second;
}

/// The weights are the first input of both operations.
const std::string& PreparedWeights::parameter_of(TensorId tensor) const {
  TensorId id = tensor;
  while (const Node* maker = maker_of(id)) id = maker->inputs[0];
  return program_.tensor(id).name;
}

bool PreparedWeights::is_made_of(TensorId tensor, TensorId source) const {
  if (tensor == source) return true;
  const Node* maker = maker_of(tensor);
  return maker != nullptr &&
         std::ranges::any_of(maker->inputs, [&](TensorId input) { return is_made_of(input, source); });
}

std::vector<float> PreparedWeights::folded(const Node& node, size_t output, const Read& read) const {
  const auto& op = static_cast<const FoldBatchNorm&>(*node.op);
  const auto given = [&](size_t input) { return numbers(node.inputs[input], read); };
  const std::vector<float> gamma = given(FoldBatchNorm::kGamma), variance = given(FoldBatchNorm::kVariance);
  const size_t channels = gamma.size();
  std::vector<float> made;
  if (output == FoldBatchNorm::kFoldedWeight) {
    made = given(FoldBatchNorm::kWeight);
    const size_t each = made.size() / channels;
    for (size_t i = 0; i < made.size(); ++i)
      made[i] *= static_cast<float>(op.factor(gamma[i / each], variance[i / each]));
    return made;
  }
  const std::vector<float> beta = given(FoldBatchNorm::kBeta), mean = given(FoldBatchNorm::kMean);
  const bool has_bias = node.inputs[FoldBatchNorm::kBias] != kNone;
  const std::vector<float> bias = has_bias ? given(FoldBatchNorm::kBias) : std::vector<float>(channels);
  for (size_t c = 0; c < channels; ++c)
    made.push_back(FoldBatchNorm::folded_bias(bias[c], mean[c], op.factor(gamma[c], variance[c]), beta[c]));
  return made;
}

PreparedWeights::Integers PreparedWeights::integers(const Node& node, const Read& read) const {
  const auto& op = static_cast<const QuantizeWeights&>(*node.op);
  const TensorId weight = node.inputs[QuantizeWeights::kWeight];
  const std::vector<float> weights = numbers(weight, read);
  Integers made{.integers = std::vector<int8_t>(weights.size()),
                .scales = std::vector<float>(static_cast<size_t>(program_.spec(weight).shape[0]))};
  quantize_weights(weights, op.levels, made.scales, made.integers.data());
  const auto beside = beside_.find(node.outputs[QuantizeWeights::kIntegers]);
  const bool makes_room = biases_ == Biases::of_32_bits && !op.levels.per_tensor && beside != beside_.end() &&
                          beside->second.bias != kNone;
  if (makes_room) make_room_for_biases(beside->second, weights, op.levels, read, made);
  return made;
}

/// Concerns outputs with tiny or zero weights, such as those that batch normalisation has switched off.
void PreparedWeights::make_room_for_biases(const Beside& beside, const std::vector<float>& weights,
                                           const WeightLevels& levels, const Read& read,
                                           Integers& made) const {
  constexpr double kMostOfBias = 1 << 28;  // leaves room for the sum in 32 bits
  const std::vector<float> biases = numbers(beside.bias, read);
  const size_t each = weights.size() / made.scales.size();
  for (size_t o = 0; o < made.scales.size(); ++o) {
    const auto of_output = std::span(made.integers).subspan(o * each, each);
    const bool is_empty = std::ranges::all_of(of_output, [](int8_t integer) { return integer == 0; });
    const auto least =
        static_cast<float>(std::abs(static_cast<double>(biases[o])) / (beside.scale * kMostOfBias));
    if (!(least > 0) || (!is_empty && made.scales[o] >= least)) continue;
    made.scales[o] = least;
    for (size_t i = 0; i < each; ++i)
      of_output[i] = static_cast<int8_t>(levels.integer_of(weights[o * each + i], least));
  }
}

std::vector<float> PreparedWeights::numbers(TensorId tensor, const Read& read) const {
  const Node* maker = maker_of(tensor);
  if (maker == nullptr) return read(program_.tensor(tensor).name);
  const Node& node = *maker;
  const auto output = static_cast<size_t>(std::ranges::find(node.outputs, tensor) - node.outputs.begin());
  if (dynamic_cast<const FoldBatchNorm*>(node.op.get()) != nullptr) return folded(node, output, read);
  const Integers made = integers(node, read);
  if (output == QuantizeWeights::kScale) return made.scales;
  std::vector<float> values(made.integers.size());
  const size_t each = values.size() / made.scales.size();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = made.scales[i / each] * static_cast<float>(made.integers[i]);
  return values;
}

void PreparedWeights::copy(const std::string& name, const Read& read, const ByteSink& sink) const {
  const auto& [tensor, form] = named_.at(name);
  if (form == Form::integers) return give<int8_t>(integers(makers_.at(tensor), read).integers, sink);
  const std::vector<float> values = numbers(tensor, read);
  give(form == Form::one_number ? std::span(values).first(1) : std::span(values), sink);
}

}  // namespace trainer
