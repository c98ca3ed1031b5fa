// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <fstream>
#include "tests/catch.h"

#include "core/recipe/assemble.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = TRAINER_SOURCE_DIR;

using Shapes = std::map<std::string, std::string>;

/// Names and shapes of the published network's tensors: scripts/fixtures/list_network_tensors.py.
Shapes published_tensors(const std::string& network) {
  std::ifstream file(kRoot / "tests/fixtures/network_tensors.txt");
  Shapes shapes;
  for (std::string of, name, shape; file >> of >> name >> shape;) {
    if (of == network) shapes[name] = shape;
  }
  return shapes;
}

Program program_of(const std::string& network) {
  return forward_program(Recipe::load(
      kRoot / "configs/resnet50_imagenet.yaml",
      {"model.network=" + network, "data.format=synthetic", "data.augment=[]", "data.eval_transform=[]",
       "training.global_batch_size=2", "training.micro_batch_size=2"}));
}

Program text_program_of(const std::string& recipe) {
  return forward_program(Recipe::load(kRoot / "configs" / (recipe + "_tokens.yaml"),
                                      {"training.global_batch_size=1", "training.micro_batch_size=1"}));
}

bool is_weight_or_statistic(const Tensor& tensor) {
  const bool statistic = tensor.name.ends_with(".running_mean") || tensor.name.ends_with(".running_var");
  return tensor.role == Role::parameter || (tensor.role == Role::state && statistic);
}

/// Names and shapes; returns the number of parameters.
int64_t check_tensors(const std::string& network, const Program& program) {
  INFO(network);
  const Shapes expected = published_tensors(network);
  REQUIRE(expected.size() > 30);
  Shapes ours;
  int64_t parameters = 0;
  for (const Tensor& tensor : program.tensors) {
    if (is_weight_or_statistic(tensor)) ours[tensor.name] = to_string(tensor.spec.shape);
    if (tensor.role == Role::parameter) parameters += numel(tensor.spec.shape);
  }
  CHECK(ours == expected);
  return parameters;
}

int64_t check_tensors(const std::string& network) {
  return check_tensors(network, program_of(network));
}

/// As torchvision begins: convolutions normal in the fan-out mode, norms at 1 and 0.
void check_first_values(const Tensor& tensor) {
  INFO(tensor.name);
  const Shape& shape = tensor.spec.shape;
  const bool is_variance = tensor.name.ends_with(".running_var"),
             is_weight = tensor.name.ends_with(".weight");
  if (shape.size() == 4) {
    CHECK(tensor.initial.kind == Initial::Kind::normal);
    CHECK(tensor.initial.a == 0);
    CHECK(tensor.initial.b ==
          Approx(std::sqrt(2.0 / static_cast<double>(shape[0] * shape[2] * shape[3]))).epsilon(1e-12));
  } else {
    CHECK(tensor.initial.kind == Initial::Kind::fill);
    CHECK(tensor.initial.a == (is_variance || is_weight ? 1 : 0));
  }
}

}  // namespace

TEST_CASE("the ResNets hold what torchvision's hold, under the same names") {
  check_tensors("resnet18");
  check_tensors("resnet50");
}

TEST_CASE("MobileNetV2 holds what torchvision's holds, under the same names, and begins as it does") {
  check_tensors("mobilenet_v2");
  for (const Tensor& tensor : program_of("mobilenet_v2").tensors) {
    if (!is_weight_or_statistic(tensor)) continue;
    INFO(tensor.name);
    if (tensor.name == "classifier.1.weight") {
      CHECK(tensor.initial.kind == Initial::Kind::normal);
      CHECK(tensor.initial.a == 0);
      CHECK(tensor.initial.b == 0.01);
    } else {
      check_first_values(tensor);
    }
  }
}

TEST_CASE("networks hold what torchvision's hold, under the same names") {
  CHECK(check_tensors("vgg16") == 138357544);
  CHECK(check_tensors("densenet121") == 7978856);
  CHECK(check_tensors("mobilenet_v3_large") == 5483032);
  CHECK(check_tensors("efficientnet_b0") == 5288548);
  CHECK(check_tensors("convnext_tiny") == 28589128);
}

TEST_CASE("GPT-2 and Llama hold what transformers' hold, under the same names") {
  CHECK(check_tensors("gpt2", text_program_of("gpt2")) == 124439808);
  CHECK(check_tensors("llama_135m", text_program_of("llama_135m")) == 134515008);
}

TEST_CASE("the vision transformers hold what timm's hold, under the same names") {
  CHECK(check_tensors("vit_tiny") == 5717416);
  CHECK(check_tensors("vit_b_16") == 86567656);
}

TEST_CASE("the small U-Net gives each pixel its classes") {
  const auto recipe = Recipe::load(kRoot / "configs/unet_synthetic.yaml", {"training.global_batch_size=2"});
  const Program program = forward_program(recipe);
  const Entry* evaluate = program.find_entry(entry_name::kEvaluate);
  REQUIRE(evaluate != nullptr);
  const TensorId logits = evaluate->output(output_name::kLogits);
  REQUIRE(logits != kNone);
  CHECK(program.spec(logits).shape == Shape{2, 4, 128, 128});
  int64_t parameters = 0;
  const auto double_conv = [](int64_t in, int64_t out) { return 9 * in * out + 9 * out * out + 4 * out; };
  const auto up = [](int64_t in, int64_t out) { return 4 * in * out + out; };
  const int64_t expected = double_conv(3, 16) + double_conv(16, 32) + double_conv(32, 64) +
                           double_conv(64, 128) + up(128, 64) + double_conv(128, 64) + up(64, 32) +
                           double_conv(64, 32) + up(32, 16) + double_conv(32, 16) + 16 * 4 + 4;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter) parameters += numel(tensor.spec.shape);
  }
  CHECK(parameters == expected);
}

TEST_CASE("the ResNets begin as torchvision's do") {
  for (const char* network : {"resnet18", "resnet50", "resnet18_32"}) {
    INFO(network);
    for (const Tensor& tensor : program_of(network).tensors) {
      if (is_weight_or_statistic(tensor) && !tensor.name.starts_with("fc.")) check_first_values(tensor);
      if (tensor.role != Role::parameter || !tensor.name.starts_with("fc.")) continue;
      const double features = std::string(network) == "resnet50" ? 2048 : 512;
      CHECK(tensor.initial.kind == Initial::Kind::uniform);
      CHECK(tensor.initial.b == Approx(1 / std::sqrt(features)).epsilon(1e-12));
      CHECK(tensor.initial.a == -tensor.initial.b);
    }
  }
}

}  // namespace trainer
