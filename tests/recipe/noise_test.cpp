// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/quantization/int8_network.h"
#include "core/recipe/assemble.h"
#include "core/step/quantized_products.h"
#include "tests/catch.h"

namespace trainer {
namespace {

std::shared_ptr<const Recipe> recipe_with(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {
      "model={input: [3, 8, 8], layers: [noise: {name: n, gaussian: 25, salt_and_pepper: "
      "0.1}, conv2d: {out_channels: 3, kernel_size: 1}]}",
      "data={format: synthetic}", "loss=mse", "validation.metrics=[psnr]",
      "data.augment=[normalize: {mean: [0.5], std: [0.25]}]"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return Recipe::load(std::string(TRAINER_SOURCE_DIR) + "/configs/fashion_mnist_autoencoder.yaml", all);
}

std::vector<const Node*> noises(const Program& program, const char* entry) {
  std::vector<const Node*> found;
  const Entry* nodes = program.find_entry(entry);
  for (const Node& node : nodes->nodes) {
    if (dynamic_cast<const Noise*>(node.op.get()) != nullptr) found.push_back(&node);
  }
  return found;
}

uint64_t key_of(const Node& node) {
  return static_cast<const Noise&>(*node.op).key;
}

std::vector<double> constant(const Program& program, TensorId id) {
  return program.tensor(id).initial.table;
}

}  // namespace

TEST_CASE("training draws noise by step, evaluation by sample alone, and prediction draws none") {
  const Program program = forward_program(recipe_with());
  const auto trained = noises(program, entry_name::kTrainStep),
             evaluated = noises(program, entry_name::kEvaluate);
  REQUIRE(trained.size() == 2);
  REQUIRE(evaluated.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(program.tensor(trained[i]->inputs[Noise::kStep]).name == state_name::kStep);
    CHECK(evaluated[i]->inputs[Noise::kStep] == kNone);
    CHECK(program.tensor(evaluated[i]->inputs[Noise::kSample]).name == input_name::kSampleIndex);
    CHECK(key_of(*trained[i]) != key_of(*evaluated[i]));
  }
  CHECK(key_of(*trained[0]) != key_of(*trained[1]));
  CHECK(noises(forward_program(recipe_with(), {.purpose = Purpose::predict}), entry_name::kPredict).empty());
}

TEST_CASE("seeds have noise of their own in training, and the same in evaluation") {
  const Program one = forward_program(recipe_with({"run.seed=1"})),
                two = forward_program(recipe_with({"run.seed=2"}));
  for (size_t i = 0; i < 2; ++i) {
    CHECK(key_of(*noises(one, entry_name::kTrainStep)[i]) != key_of(*noises(two, entry_name::kTrainStep)[i]));
    CHECK(key_of(*noises(one, entry_name::kEvaluate)[i]) == key_of(*noises(two, entry_name::kEvaluate)[i]));
  }
}

TEST_CASE(
    "noise has the units of bytes as each split's transforms map them, and the loss compares clean images") {
  const Program program = forward_program(recipe_with());
  const Node &trained = *noises(program, entry_name::kTrainStep)[0],
             &evaluated = *noises(program, entry_name::kEvaluate)[0];
  CHECK(constant(program, trained.inputs[Noise::kScale])[2] == Approx(1 / (255 * 0.25)));
  CHECK(constant(program, trained.inputs[Noise::kOffset])[2] == Approx(-2));
  CHECK(constant(program, evaluated.inputs[Noise::kScale])[2] == Approx(1.0 / 255));
  CHECK(constant(program, evaluated.inputs[Noise::kOffset])[2] == 0);
  const TensorId images = program.find(input_name::kImages);
  CHECK(trained.inputs[Noise::kX] == images);
  CHECK(program.find(input_name::kCleanImages) == kNone);
  int comparisons = 0;
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      if (node.op->name() != "squared_error" && node.op->name() != "psnr") continue;
      CHECK(node.inputs[1] == images);
      ++comparisons;
    }
  }
  CHECK(comparisons == 3);
}

TEST_CASE("a share of noise that is 0 is left out, and ranges for 8 bits are those of noisy images") {
  CHECK(noises(forward_program(recipe_with({"model.layers[0].noise.gaussian=0"})), entry_name::kEvaluate)
            .size() == 1);
  const std::shared_ptr<const Recipe> recipe = recipe_with();
  const ProgramRequest request{.use = {.purpose = Purpose::predict},
                               .observation = std::make_shared<const RangeObservation>()};
  CHECK(noises(make_program(recipe, passes_for(recipe, request)), entry_name::kPredict).size() == 2);
}

}  // namespace trainer
