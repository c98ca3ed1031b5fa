// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/quantize_section.h"

#include <fmt/format.h>

namespace trainer {
namespace {

constexpr const char *kQuantize = "compression.quantize", *kAnyScale = "any", *kPowersOfTwo = "power_of_two",
                     *kPerChannel = "per_channel", *kPerTensor = "per_tensor";

}  // namespace

void QuantizeSection::declare(Fields& fields) {
  fields
      .add("weight_bits", &weight_bits,
           "bits of the weights of convolutions and linear layers; 7 for `trainer quantize` on any "
           "processor, 8 "
           "for those with VNNI; default: weights are not rounded")
      .at_least(kLeastBits)
      .at_most(kMostBits);
  fields.add("activation_bits", &activation_bits, "bits of what these weights are multiplied by")
      .at_least(kLeastBits)
      .at_most(kMostBits)
      .absent_as("8");
  fields
      .add("scales", &scales,
           "any, or power_of_two: scales are rounded up to powers of two, for devices that shift instead of "
           "multiply")
      .one_of({kAnyScale, kPowersOfTwo})
      .absent_as(kAnyScale);
  fields
      .add("weights", &weights,
           "per_channel: the weights of each output have their own scale; per_tensor: all share one")
      .one_of({kPerChannel, kPerTensor})
      .absent_as(kPerChannel);
  fields.add("begin", &begin, "when rounding begins; ranges of activations are observed before")
      .at_least(0)
      .absent_as("0ba");
  fields.add("except", &except, "patterns of the names of weights whose products stay in f32");
}

WeightLevels QuantizeSection::weight_levels() const {
  return {.bits = weight_bits.value_or(kMostBits),
          .per_tensor = weights == kPerTensor,
          .power_of_two = scales == kPowersOfTwo};
}

ActivationLevels QuantizeSection::activation_levels() const {
  return {.bits = activation_bits, .power_of_two = scales == kPowersOfTwo};
}

FakeQuantizeSpec QuantizeSection::spec(int64_t begin_step,
                                       const std::function<Origin(const std::string&)>& origin_of) const {
  return {.weights = weight_levels(),
          .activations = activation_levels(),
          .begin = begin_step,
          .except = except,
          .origin_of = [origin_of](const std::string& key) {
            return origin_of(key.empty() ? kQuantize : fmt::format("{}.{}", kQuantize, key));
          }};
}

void QuantizeSection::check(const std::function<Origin(const std::string&)>& origin_of,
                            Diagnostics& diagnostics) const {
  const QuantizeSection defaults;
  const bool is_set = activation_bits != defaults.activation_bits || scales != defaults.scales ||
                      weights != defaults.weights || begin != defaults.begin || !except.empty();
  if (!is_asked() && is_set) diagnostics.error(origin_of(kQuantize), "missing key 'weight_bits'");
}

}  // namespace trainer
