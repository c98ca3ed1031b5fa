// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include "core/graph/operation.h"
#include "core/graph/ops/matmul.h"
#include "core/recipe/job.h"
#include "tests/catch.h"
#include "tests/reference/backend.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Names = std::set<std::string>;

constexpr const char* kText = R"(
  input: [12]
  input_kind: tokens
  layers:
    - embedding: {name: words, vocab_size: 23, features: 8}
    - positions: {name: places, max_positions: 12}
    - linear: {name: up, out_features: 20}
    - gelu
    - linear: {name: down, out_features: 8, transposed: true}
)";
constexpr const char* kTied = "    - linear: {name: head, out_features: 23, bias: false, weight_of: words}\n";
constexpr const char* kOwn = "    - linear: {name: head, out_features: 23}\n";
constexpr const char* kTextData = "data: {format: text, train: none.txt, val: null}\n";

constexpr const char* kImages = R"(
  input: [3, 8, 8]
  layers:
    - conv2d: {name: conv, out_channels: 6, kernel_size: 3}
    - batch_norm: {name: norm}
    - flatten
    - linear: {name: hidden, out_features: 9}
    - tanh
    - reshape: [3, 3]
    - class_token: {name: token}
    - linear: {name: head, out_features: 10}
    - mean_tokens
)";
constexpr const char* kImageData = "data: {format: synthetic}\n";

std::shared_ptr<const Recipe> recipe_of(const std::string& model_and_data, const std::string& training) {
  return Recipe::parse("version: 1\nmodel:" + model_and_data + "training: {global_batch_size: 4, " +
                           training +
                           "}\noptimizer: {name: muon, groups: [{pattern: \"*.bias\", lr_factor: 2}]}\n",
                       "r.yaml", {});
}

/// Parameters with a moment of that name, once all passes have run.
Names with_moment(const Program& program, const std::string& moment) {
  Names found;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::optimizer && tensor.name.ends_with(moment))
      found.insert(tensor.name.substr(0, tensor.name.size() - moment.size()));
  }
  return found;
}

void check_division(const Program& program, const Names& matrices, const Names& others) {
  CHECK(with_moment(program, ".momentum") == matrices);
  CHECK(with_moment(program, ".exp_avg") == others);
  CHECK(with_moment(program, ".exp_avg_sq") == others);
}

/// The ways in which programs of one recipe differ: weights are cast, once for all micro-batches or not.
const std::vector<std::string> kTrainings = {"precision: fp32", "precision: amp_bf16", "precision: amp_fp16",
                                             "precision: amp_bf16, micro_batch_size: 2",
                                             "precision: fp32, micro_batch_size: 1, ema: {decay: 0.9}"};

Program muon_program(const RunSpec& spec, const std::optional<int64_t>& piece_bytes = std::nullopt) {
  Program program;
  std::vector<Pass> passes = passes_for(spec, {.lr_table = {0.1f}});
  if (piece_bytes) *std::ranges::find(passes, "fuse_classifier", &Pass::name) = fuse_classifier(*piece_bytes);
  run_passes(program, passes);
  return program;
}

}  // namespace

TEST_CASE("muon leaves embeddings, positions and the head to AdamW, whatever type they are read in") {
  for (const std::string& training : kTrainings) {
    INFO(training);
    const Names vectors = {"up.bias", "down.bias", "words.weight", "places.weight"};
    const auto tied = recipe_of(std::string(kText) + kTied + kTextData, training);
    check_division(muon_program(tied), {"up.weight", "down.weight"}, vectors);
    const auto own = recipe_of(std::string(kText) + kOwn + kTextData, training);
    Names others = vectors;
    others.insert({"head.weight", "head.bias"});
    check_division(muon_program(own), {"up.weight", "down.weight"}, others);
    check_division(muon_program(own, 1), {"up.weight", "down.weight"}, others);
  }
}

TEST_CASE("muon leaves kernels, tokens and vectors to AdamW, and the head behind which tokens are averaged") {
  for (const std::string& training : kTrainings) {
    INFO(training);
    const auto recipe = recipe_of(std::string(kImages) + kImageData, training);
    check_division(muon_program(recipe), {"hidden.weight"},
                   {"conv.weight", "conv.bias", "norm.weight", "norm.bias", "hidden.bias", "token",
                    "head.weight", "head.bias"});
  }
}

TEST_CASE("muon leaves the last linear layer to AdamW under every loss") {
  const test::ScratchDirectory directory;
  const std::string teacher = (directory / "teacher.yaml").string();
  std::ofstream(teacher) << "version: 1\nmodel: {input: [3, 4, 4], layers: [flatten, linear: 48]}\n"
                         << kImageData;
  for (const Registered<Loss>& loss : losses()) {
    const std::unique_ptr<Loss> made = loss.make();
    const bool compares_inputs = made->target_kind() == TargetKind::numbers;
    const std::string taught =
        made->teacher() == nullptr ? "" : ", teacher: {recipe: " + teacher + ", weights: none}";
    for (const std::string& training : kTrainings) {
      INFO(loss.name << ", " << training);
      const std::string end = compares_inputs ? ", reshape: [3, 4, 4]]}\n" : "]}\n";
      const auto recipe = recipe_of(
          " {input: [3, 4, 4], layers: [flatten, linear: {name: up, out_features: 9}, "
          "tanh, linear: {name: down, out_features: 48}" +
              end + kImageData + "loss: {name: " + loss.name + taught + "}\nvalidation: {metrics: []}\n",
          training);
      check_division(muon_program(recipe), {"up.weight"}, {"up.bias", "down.weight", "down.bias"});
    }
  }
}

TEST_CASE("muon finds the last linear layers whatever follows them") {
  struct Case {
    std::string layers;  ///< of (N, 12), after a linear layer named `first`
    Names matrices;
  };
  const std::vector<Case> cases = {
      {"gelu, linear: {name: last, out_features: 7, bias: false}, sigmoid", {"first.weight"}},
      {"linear: {name: last, out_features: 7, bias: false}, dropout: 0.5, "
       "layer_norm: {elementwise_affine: false}, scale: {name: scale}",
       {"first.weight"}},
      // A residual stream as an output: only layers that no other layer reads are last.
      {"linear: {name: inner, out_features: 12, bias: false}, "
       "add: {name: sum, inputs: [first, inner]}, linear: {name: last, out_features: 12, bias: false}, "
       "add: {inputs: [sum, last]}",
       {"first.weight", "inner.weight"}},
      // Two branches, each of which ends in a layer of its own.
      {"linear: {name: left, out_features: 5, bias: false}, "
       "linear: {name: right, inputs: [first], out_features: 5, bias: false}, "
       "mul: {inputs: [left, right]}",
       {"first.weight"}},
  };
  for (const Case& each : cases) {
    INFO(each.layers);
    const auto recipe = recipe_of(
        " {input: [3, 2, 2], layers: [flatten, linear: {name: first, out_features: "
        "12}, " +
            each.layers + "]}\n" + kImageData,
        "precision: fp32");
    CHECK(with_moment(muon_program(recipe), ".momentum") == each.matrices);
  }
}

TEST_CASE(
    "before a convolution no linear layer is the last one, though its normalisation be folded into it") {
  for (const std::string norm : {"", ", batch_norm: {name: norm}"}) {
    for (const std::string& training : kTrainings) {
      INFO(training << norm);
      const auto recipe = recipe_of(
          " {input: [3, 4, 4], layers: [to_tokens, linear: {name: mix, out_features: 6}, to_images: {inputs: "
          "[mix, input]}, conv2d: {name: labels, out_channels: 5, kernel_size: 1, bias: false}" +
              norm + "]}\n" + kImageData,
          training);
      Names others = {"mix.bias", "labels.weight"};
      if (!norm.empty()) others.insert({"norm.weight", "norm.bias"});
      check_division(muon_program(recipe), {"mix.weight"}, others);
    }
  }
}

TEST_CASE("muon multiplies in f32 whatever the precision") {
  const auto recipe = recipe_of(std::string(kImages) + kImageData, "precision: amp_bf16");
  const Program program = muon_program(recipe);
  size_t products = 0;
  for (const Node& node : program.entries[0].nodes) {
    if (dynamic_cast<const MatMul*>(node.op.get()) == nullptr) continue;
    CHECK(program.spec(node.outputs[0]).dtype == DType::f32);
    ++products;
  }
  CHECK(products == 3 * 5);
}

TEST_CASE("a plan knows muon's moments: one of each matrix, two of all else") {
  const auto recipe = recipe_of(std::string(kText) + kTied + kTextData, "precision: fp32");
  const Backend reference = make_reference_backend();  // its layouts have no padding
  const int64_t matrices = 2 * 8 * 20, others = 23 * 8 + 12 * 8 + 20 + 8;
  const int64_t moments = reference.planner->element_bytes(DType::f32) * (matrices + 2 * others);
  const int64_t bytes = make_job(recipe, *reference.planner).plan.persistent_by_kind.at("optimizer");
  CHECK(bytes >= moments);
  CHECK(bytes < moments + 10 * kArenaAlignment);
}

}  // namespace trainer
