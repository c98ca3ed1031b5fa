// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/compression_section.h"

#include <fmt/format.h>

namespace trainer {
namespace {

constexpr const char *kPrune = "compression.prune", *kTwoOfFour = "2:4";
/// What 2:4 leaves no choice about.
constexpr double kHalf = 0.5;

void declare_prune(CompressionSection& section, Fields& fields) {
  fields
      .add("sparsity", &section.sparsity,
           "share of the weights of convolutions and linear layers that end as zeros, those of least "
           "magnitude; default: none")
      .above(0)
      .below(1);
  fields
      .add("scope", &section.scope,
           "layer: each weight tensor has this share of zeros; global: all together, so that layers with "
           "smaller weights lose more")
      .one_of({"layer", "global"})
      .absent_as("layer");
  fields
      .add("pattern", &section.pattern,
           "unstructured: any weights; 2:4: two of each four neighbours along the input channels, as sparse "
           "tensor cores expect it")
      .one_of({"unstructured", kTwoOfFour})
      .absent_as("unstructured");
  fields
      .add("begin", &section.begin,
           "when pruning begins; from there to end the share grows from 0, fast at first")
      .at_least(0)
      .absent_as("0ba");
  fields
      .add("end", &section.end,
           "when the share reaches sparsity; default: at begin, all weights are pruned at once")
      .at_least(0);
  fields.add("every", &section.every, "how often more weights are pruned between begin and end")
      .at_least(1)
      .absent_as("100ba");
  fields.add("only", &section.only, "patterns of the names of weights to prune; default: all");
  fields.add("except", &section.except, "patterns of the names of weights that stay");
}

}  // namespace

void CompressionSection::declare(Fields& fields) {
  fields
      .section("prune", "set weights to zero while training (masks save neither time nor memory)",
               [this](Fields& prune) { declare_prune(*this, prune); })
      .absent_if_unset();
  fields
      .section("quantize", "round weights and activations to few bits while training, for `trainer quantize`",
               [this](Fields& keys) { quantize.declare(keys); })
      .absent_if_unset();
}

bool CompressionSection::is_two_of_four() const {
  return pattern == kTwoOfFour;
}

PruneSpec CompressionSection::prune_spec(const std::function<Origin(const std::string&)>& origin_of) const {
  return {.only = only,
          .except = except,
          .two_of_four = is_two_of_four(),
          .origin_of = [origin_of](const std::string& key) {
            return origin_of(key.empty() ? kPrune : fmt::format("{}.{}", kPrune, key));
          }};
}

PruningSettings CompressionSection::settings(const std::function<int64_t(const Duration&)>& steps_in) const {
  const int64_t first = steps_in(begin);
  return {.sparsity = sparsity.value_or(0),
          .begin = first,
          .end = end ? steps_in(*end) : first,
          .every = steps_in(every),
          .is_global = scope == "global",
          .two_of_four = is_two_of_four()};
}

void CompressionSection::check(const std::function<Origin(const std::string&)>& origin_of,
                               Diagnostics& diagnostics) const {
  quantize.check(origin_of, diagnostics);
  const auto error = [&](const char* key, const std::string& text) {
    diagnostics.error(origin_of(fmt::format("{}.{}", kPrune, key)), text);
  };
  if (!prunes()) {
    const bool is_set = is_two_of_four() || scope != "layer" || end || !only.empty() || !except.empty();
    if (is_set) diagnostics.error(origin_of(kPrune), "missing key 'sparsity'");
    return;
  }
  if (!is_two_of_four()) return;
  if (*sparsity != kHalf)
    error("sparsity", fmt::format("must be {} with pattern 2:4, got {}", kHalf, *sparsity));
  if (scope == "global")
    error("scope", "pattern 2:4 prunes every four neighbours alike; write layer, or remove this key");
  if (end && *end != begin) error("end", "pattern 2:4 prunes at once; remove this key, begin says when");
}

}  // namespace trainer
