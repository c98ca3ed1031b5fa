// SPDX-License-Identifier: Apache-2.0
#include "core/session/smaller_network.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/recipe/assemble.h"
#include "core/run/stored_weights.h"
#include "core/run/weights.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/reference/session.h"
#include "tests/session/pruned.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using test::drawn_values;
using test::kHalf;
using test::layers_text;
using test::Pruned;
using test::recipe_of;
using NamedValues = std::map<std::string, std::vector<float>>;

constexpr int64_t kImagesOfTest = 2;
constexpr double kNearLogits = 1e-5;  // relative: sums have another order

NamedValues weights_of(const Program& program) {
  NamedValues values;
  for (const Tensor& tensor : program.tensors) {
    if (is_weight(tensor)) values[tensor.name] = drawn_values(tensor);
  }
  return values;
}

std::vector<double> logits_of(const RunSpec& spec, const NamedValues& weights) {
  const Program program =
      forward_program(spec.with_micro_batch(kImagesOfTest), {.purpose = Purpose::predict});
  const Backend backend = make_cpu_backend(1);
  Session session(program, backend);
  session.set(weights);
  const TensorId images = program.find(input_name::kImages);
  RandomStream random(random_key(8, "images"));
  std::vector<float> pixels(static_cast<size_t>(numel(program.spec(images).shape)));
  for (float& pixel : pixels) pixel = 2 * random.next_uniform() - 1;
  session.set(input_name::kImages, pixels);
  session.run(entry_name::kPredict);
  return session.output(entry_name::kPredict, output_name::kLogits);
}

/// With zeros for parameters of removed channels that make or normalise these, so that they are zero wherever
/// they are read.
NamedValues masked(const SmallerNetwork& smaller, NamedValues weights) {
  for (const ChannelGroup& group : smaller.channels.groups) {
    for (const ChannelAxis& axis : group.axes) {
      const Tensor& tensor = smaller.before.tensor(axis.tensor);
      if (axis.use == ChannelUse::reads || tensor.role != Role::parameter) continue;
      const AlongDimension along(tensor.spec.shape, axis.dimension);
      const std::vector<size_t>& of = smaller.channels.of[static_cast<size_t>(axis.tensor)][axis.dimension];
      std::vector<float>& values = weights.at(tensor.name);
      for (size_t i = 0; i < values.size(); ++i) {
        if (smaller.removed[of[along.position(i)]]) values[i] = 0;
      }
    }
  }
  return weights;
}

NamedValues stored_weights(const RunSpec& spec, const fs::path& path) {
  const Program program = forward_program(spec, {.purpose = Purpose::predict});
  const StoredWeights stored(program, spec.recipe().model.tied_weights(), path);
  NamedValues values;
  for (const Tensor& tensor : program.tensors) {
    if (is_weight(tensor)) values[tensor.name] = stored.read(tensor.name);
  }
  return values;
}

/// The smaller network computes what the given one does with zeros in place of the removed channels.
void check_exact(const std::shared_ptr<const Recipe>& recipe, const PruneRequest& request = kHalf) {
  const Pruned pruned(recipe, request);
  const NamedValues all = weights_of(forward_program(pruned.spec, {.purpose = Purpose::predict}));
  const std::vector<double> large = logits_of(pruned.spec, masked(pruned.smaller, all));
  const RunSpec smaller(pruned.written);
  const std::vector<double> small =
      logits_of(smaller, stored_weights(smaller, pruned.folder / "out/model.safetensors"));
  CHECK(relative_error(small, large) < kNearLogits);
  // The channels matter, or the comparison would say nothing.
  CHECK(relative_error(logits_of(pruned.spec, all), large) > 1e-2);
}

}  // namespace

TEST_CASE("a smaller network computes what the masked one does") {
  const std::string network =
      GENERATE("resnet18", "mobilenet_v2", "mobilenet_v3_large", "densenet121", "unet_small");
  INFO(network);
  check_exact(recipe_of("  network: " + network + "\n", {"model.input=[3, 32, 32]"}));
}

TEST_CASE("a smaller network computes what the masked one does: hidden features of transformers") {
  check_exact(recipe_of("  network: vit_tiny\n", {"model.input=[3, 32, 32]"}));
}

TEST_CASE("a smaller network computes what the masked one does: groups, reductions, odd sizes") {
  const std::string name = ", kernel_size: 3, padding: 1";
  check_exact(recipe_of(layers_text("conv2d: {name: a, out_channels: 12" + name +
                                    "}, relu, conv2d: {name: g, out_channels: 18, groups: 3" + name +
                                    "}, silu, conv2d: {name: d, out_channels: 36, groups: 18" + name +
                                    "}, squeeze_excite: {name: s, ratio: 3}, conv_transpose2d: {name: t, "
                                    "out_channels: 14, groups: 2, kernel_size: 2}, " +
                                    "instance_norm: {affine: true}, group_norm: {groups: 14}, flatten, "
                                    "linear: {name: h, out_features: 11, transposed: "
                                    "true}, tanh, linear: {name: head, out_features: 5}")));
}

TEST_CASE("a smaller network computes what the masked one does: pixels as tokens, scales and positions") {
  const std::string image = "conv2d: {name: a, out_channels: 10, kernel_size: 3}, to_tokens, ";
  const std::string perceptron =
      "linear: {name: b, out_features: 13}, gelu, linear: {name: d, out_features: 10}, scale: {name: e, "
      "bare: true}, ";
  check_exact(recipe_of(
      layers_text(image + perceptron +
                  "to_images: {name: f, inputs: [e, a]}, add: {inputs: [f, a]}, flatten, linear: 5")));
  check_exact(
      recipe_of(layers_text(image + "class_token: {name: c}, positions: {name: p, max_positions: 50}, " +
                            perceptron + "add: {inputs: [e, p]}, mean_tokens, linear: 5")));
}

}  // namespace trainer
