// SPDX-License-Identifier: Apache-2.0
#include "core/step/tensor_cuts.h"

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/step/stages.h"
#include "core/step/step.h"
#include "tests/catch.h"
#include "tests/reference/networks.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Tied, with packed queries, keys and values.
constexpr const char* kGpt =
    "{input: [6], input_kind: tokens, layers: ["
    "{embedding: {name: wte, vocab_size: 11, features: 8}}, {positions: {name: wpe, max_positions: 6}}, "
    "{layer_norm: {name: ln1}}, {linear: {name: qkv, out_features: 24}}, {attention: {heads: 4, causal: "
    "true}}, "
    "{linear: {name: proj, out_features: 8}}, {add: {name: res1, inputs: [wpe, proj]}}, "
    "{layer_norm: {name: ln2}}, {linear: {name: fc, out_features: 32}}, gelu_tanh, "
    "{linear: {name: out, out_features: 8}}, {add: {name: res2, inputs: [res1, out]}}, "
    "{linear: {name: head, out_features: 11, bias: false, weight_of: wte}}]}";

Program program_of(const std::string& text, int64_t samples = 2) {
  const Network network = network_from(text);
  const std::unique_ptr<Loss> loss = loss_from("{name: cross_entropy}");
  const ForwardSpec spec{.network = &network,
                         .loss = loss.get(),
                         .task = {.input = network.input,
                                  .input_kind = network.kind(),
                                  .output = output_shape(network, samples),
                                  .format = network.kind() == InputKind::tokens ? "tokens" : "synthetic",
                                  .origin_of = [](const std::string&) { return Origin{}; }},
                         .samples = samples,
                         .reported = [] { return Reported{.metrics = {loss_metric()}}; }};
  Program program;
  run_passes(program, forward_stages(spec));
  return program;
}

/// The sections of a parameter with the dimension before them, or nothing.
std::vector<int64_t> cut_of(const Program& program, const TensorCuts& cuts, const char* name) {
  const auto found = cuts.parameters.find(program.find(name));
  if (found == cuts.parameters.end()) return {};
  std::vector<int64_t> numbers = {static_cast<int64_t>(found->second.dimension)};
  numbers.insert(numbers.end(), found->second.lengths.begin(), found->second.lengths.end());
  return numbers;
}

Program shared(const std::string& network, int64_t ranks, int64_t samples = 2) {
  Program program = program_of(network, samples);
  run_passes(program, {tensor_parallel({.tensor = ranks}, {}), autodiff(), exchange_logits(),
                       overlap_collectives(int64_t{1} << 20)});
  return program;
}

using Cut = std::vector<int64_t>;

}  // namespace

TEST_CASE("tensor_parallel: a GPT's products are cut in pairs, its logits by the vocabulary") {
  const Program program = program_of(kGpt);
  const TensorCuts cuts = find_tensor_cuts(program, 2);
  CHECK(cut_of(program, cuts, "qkv.weight") == Cut{0, 8, 8, 8});
  CHECK(cut_of(program, cuts, "qkv.bias") == Cut{0, 8, 8, 8});
  CHECK(cut_of(program, cuts, "proj.weight") == Cut{1, 8});
  CHECK(cut_of(program, cuts, "proj.bias").empty());
  CHECK(cut_of(program, cuts, "fc.weight") == Cut{0, 32});
  CHECK(cut_of(program, cuts, "out.weight") == Cut{1, 32});
  CHECK(cut_of(program, cuts, "wte.weight") == Cut{0, 11});
  CHECK(cut_of(program, cuts, "wpe.weight").empty());
  CHECK(cut_of(program, cuts, "ln1.weight").empty());
}

TEST_CASE("tensor_parallel: what else reads features leaves them whole") {
  const Program whole = program_of(
      "{input: [1, 2, 3], layers: [{flatten: {name: f}}, {linear: {name: a, out_features: 8}}, tanh, "
      "{linear: {name: b, out_features: "
      "6}}, "
      "{add: {inputs: [f, b]}}, {linear: {name: c, out_features: 4}}, softmax, "
      "{linear: {name: d, out_features: 10}}]}");
  const TensorCuts cuts = find_tensor_cuts(whole, 2);
  CHECK(cut_of(whole, cuts, "a.weight") == Cut{0, 8});
  CHECK(cut_of(whole, cuts, "b.weight") == Cut{1, 8});
  CHECK(cut_of(whole, cuts, "c.weight").empty());  // softmax needs all features
  CHECK(cut_of(whole, cuts, "d.weight") == Cut{0, 10});
  CHECK(find_tensor_cuts(whole, 3).parameters.size() == 2);  // 8 features are not for 3; classes have padding
}

TEST_CASE("tensor_parallel: heads that ranks cannot share are named with the numbers that can") {
  const char* const of = GENERATE("{heads: 4}", "{heads: 6, kv_heads: 3}");
  const bool shares_heads = std::string(of).find("kv") != std::string::npos;
  const std::string network =
      std::string(
          "{input: [6], input_kind: tokens, layers: [{embedding: {vocab_size: 9, features: "
          "12}}, {linear: ") +
      (shares_heads ? "24" : "36") + "}, {attention: " + of + "}, {linear: 12}, {linear: 9}]}";
  const Program program = program_of(network);
  const std::string expected =
      shares_heads ? "2 ranks cannot share 6 heads and 3 of keys and values: parallelism.tensor may be 3"
                   : "3 ranks cannot share 4 heads: parallelism.tensor may be 2 or 4";
  CHECK_THROWS_WITH(find_tensor_cuts(program, shares_heads ? 2 : 3), ContainsSubstring(expected));
}

/// Bytes of what the forward part of a block keeps for the backward part.
int64_t kept_bytes(int64_t ranks) {
  const std::string block =
      "{layer_norm: {name: ln1_X}}, {linear: {name: qkv_X, out_features: 192}}, {attention: {heads: 8, "
      "causal: true}}, "
      "{linear: {name: proj_X, out_features: 64}}, {add: {name: mid_X, inputs: [end_Y, proj_X]}}, "
      "{layer_norm: {name: ln2_X}}, {linear: {name: fc_X, out_features: 256}}, gelu_tanh, "
      "{linear: {name: out_X, out_features: 64}}, {add: {name: end_X, inputs: [mid_X, out_X]}}";
  std::string layers =
      "{embedding: {name: wte, vocab_size: 97, features: 64}}, {positions: {name: end_0, max_positions: 32}}";
  for (const char* const numbers : {"10", "21", "32"}) {
    std::string one = block;
    for (const auto& [mark, number] : {std::pair{'X', numbers[0]}, std::pair{'Y', numbers[1]}}) {
      for (char& c : one) c = c == mark ? number : c;
    }
    layers += ", " + one;
  }
  Program program =
      program_of("{input: [32], input_kind: tokens, layers: [" + layers + ", {linear: 97}]}", 4);
  std::vector<Pass> passes = {autodiff()};
  if (ranks > 1)
    passes = {tensor_parallel({.tensor = ranks}, {}), autodiff(), exchange_logits(), gather_again()};
  run_passes(program, passes);
  const Entry& entry = program.entry(entry_name::kTrainStep);
  std::set<TensorId> read;
  for (const Node& node : entry.nodes) {
    if (node.phase == Phase::backward) read.insert(node.inputs.begin(), node.inputs.end());
  }
  int64_t bytes = 0;
  for (const Node& node : entry.nodes) {
    // The second of three blocks has the layers 12 to 21.
    const size_t at = node.origin.path.find('[');
    const int layer = at == std::string::npos ? -1 : std::atoi(node.origin.path.c_str() + at + 1);
    if (node.phase != Phase::forward || layer < 12 || layer > 21) continue;
    for (const TensorId id : node.outputs) {
      if (id != kNone && read.contains(id)) bytes += numel(program.spec(id).shape) * int64_t{sizeof(float)};
    }
  }
  return bytes;
}

TEST_CASE("tensor_parallel: four ranks keep at most 0.30 of a block's activations each") {
  const int64_t whole = kept_bytes(1), shared = kept_bytes(4);
  INFO(shared << " of " << whole << " bytes");
  CHECK(whole > 0);
  CHECK(static_cast<double>(shared) <= 0.30 * static_cast<double>(whole));
}

TEST_CASE("tensor_parallel: a network without pairs is refused") {
  Program program = program_of(
      "{input: [3, 8, 8], layers: [{conv2d: {out_channels: 4, kernel_size: 3}}, relu, "
      "global_avg_pool2d, flatten, softmax]}");
  CHECK_THROWS_WITH(run_passes(program, {tensor_parallel({.tensor = 2}, {})}),
                    ContainsSubstring("can share nothing") && ContainsSubstring("shard_parameters"));
  Program uneven =
      program_of("{input: [1, 2, 3], layers: [flatten, {linear: 8}, relu, {linear: 4}, softmax]}");
  CHECK_THROWS_WITH(run_passes(uneven, {tensor_parallel({.tensor = 3}, {})}),
                    ContainsSubstring("3 ranks cannot share the 8 features of"));
}

TEST_CASE("tensor_parallel: activations are rows or parts of features, and logits never whole") {
  const Program program = shared(kGpt, 2);
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      for (const TensorId id : node.outputs) {
        if (id == kNone) continue;
        INFO(node.op->name() << " " << to_string(program.spec(id).shape));
        CHECK_FALSE(program.spec(id).shape == Shape{2, 6, 11});
        CHECK_FALSE(program.spec(id).shape == Shape{2, 6, 32});
        CHECK_FALSE(program.spec(id).shape == Shape{2, 6, 24});
        if (node.op->name() == "layer_norm" && id == node.outputs[0])
          CHECK(program.spec(id).shape == Shape{6, 8});
      }
    }
  }
}

}  // namespace trainer
