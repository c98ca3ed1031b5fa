// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "core/recipe/assemble.h"
#include "core/recipe/classes.h"
#include "core/recipe/schema.h"
#include "tests/catch.h"
#include "tests/recipe/json_schema.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

std::shared_ptr<const Recipe> synthetic_recipe(const std::string& model,
                                               const std::vector<std::string>& overrides = {}) {
  return Recipe::parse("version: 1\nmodel: " + model + "\ndata: {format: synthetic}\n", "r.yaml", overrides);
}

std::string model_refusal(const std::string& model, const std::vector<std::string>& overrides = {}) {
  return test::error_text(ExitCode::recipe, [&] { forward_program(synthetic_recipe(model, overrides)); });
}

}  // namespace

TEST_CASE("num_classes sets the outputs of every shipped network with a head of its own") {
  size_t networks = 0;
  const std::filesystem::path folder = std::filesystem::path(TRAINER_SOURCE_DIR) / "configs/models";
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    INFO(name);
    if (name == "conv_autoencoder") continue;  // it has no classes
    const std::string model = "{network: " + name + ", num_classes: 7}";
    if (name == "gpt2" || name == "llama_135m" || name == "gpt_char") {
      CHECK_THAT(model_refusal(model),
                 ContainsSubstring("model.num_classes: the last layer's weight is that of '") &&
                     ContainsSubstring("; set the number of outputs in both layers instead"));
      continue;
    }
    const RunSpec spec = synthetic_recipe(model);
    CHECK(class_count(spec) == 7);
    const std::string text = spec.recipe().to_yaml(false);
    CHECK(Recipe::parse(text, "r.yaml", {})->to_yaml(false) == text);
    ++networks;
  }
  CHECK(networks > 12);
}

TEST_CASE("num_classes reaches a head in every form that a recipe writes it in") {
  for (const char* head : {"linear: 4", "linear: {out_features: 4}", "linear: {name: fc}"}) {
    INFO(head);
    const std::string model = std::string("{input: [1, 8, 8], layers: [flatten, {") + head + "}, relu]}";
    CHECK(class_count(synthetic_recipe(model, {"model.num_classes=9"})) == 9);
  }
  const auto pixels =
      synthetic_recipe("{input: [1, 8, 8], layers: [conv2d: {kernel_size: 1}], num_classes: 3}");
  CHECK(class_count(pixels) == 3);
  CHECK_THAT(model_refusal("{input: [1, 8, 8], layers: [flatten, relu], num_classes: 3}"),
             ContainsSubstring("model.num_classes: no layer of the network has a number of outputs to set"));
  for (const char* wrong : {"0", "-3", "x", "1.5", "[3]", "99999999999999999999"}) {
    INFO(wrong);
    const std::string text = model_refusal(std::string("{network: lenet, num_classes: ") + wrong + "}");
    CHECK_THAT(text, ContainsSubstring("r.yaml:2:25: error: model.num_classes: ") &&
                         ContainsSubstring("\n1 error, nothing was started"));
  }
}

TEST_CASE("a network's name alone is a model") {
  const JsonSchema schema(recipe_schema());
  const auto whole = synthetic_recipe("{network: lenet}");
  CHECK(synthetic_recipe("lenet")->identity().mathematics == whole->identity().mathematics);
  CHECK(synthetic_recipe("mlp", {"model=lenet"})->identity().mathematics == whole->identity().mathematics);
  CHECK(synthetic_recipe("mlp", {"model={network: lenet}"})->identity().mathematics ==
        whole->identity().mathematics);
  CHECK(class_count(synthetic_recipe("lenet", {"model.num_classes=3"})) == 3);
  CHECK_THAT(model_refusal("lenett"),
             ContainsSubstring("r.yaml:2:1: error: no network 'lenett' comes with the program; "
                               "did you mean 'lenet'?"));
  Diagnostics diagnostics;
  for (const char* text : {"model: lenet\ndata: {}\n", "model: {network: lenet, num_classes: 3}\ndata: {}\n"})
    CHECK(schema.complaints(parse_yaml(text, "r", diagnostics), "") == std::vector<std::string>{});
  CHECK_FALSE(schema.complaints(parse_yaml("model: 5\ndata: {}\n", "r", diagnostics), "").empty());
}

TEST_CASE("data of another number of classes ask for num_classes, for outputs at a layer of the recipe") {
  const SourceInfo info{.size = 9, .shape = {1, 28, 28}, .classes = 3};
  const auto remedy = [&](const std::string& model) {
    const RunSpec spec = synthetic_recipe(model);
    return test::error_text(ExitCode::recipe, [&] { require_same_class_count(spec, Split::train, info); });
  };
  CHECK_THAT(remedy("lenet"),
             ContainsSubstring("has 3 classes; set model.num_classes to 3, or correct the data"));
  CHECK_THAT(remedy("{input: [1, 28, 28], layers: [flatten, linear: 4]}"),
             ContainsSubstring("r.yaml:2:47: error: model.layers[1].linear: ") &&
                 ContainsSubstring("set out_features to 3, or correct"));
}

}  // namespace trainer
