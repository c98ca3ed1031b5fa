// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/recipe/job.h"
#include "core/run/weights.h"
#include "core/storage/safetensors.h"
#include "core/train/generation.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"
#include "tests/reference/session.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

constexpr int64_t kSamples = 4;
constexpr size_t kBatches = 4;

// Results of scripts/fixtures/make_network_fixtures.py for transformers' GPT-2 and Llama and timm's ViT, from
// the templates of the networks that are shipped with the program.
constexpr const char* kGpt2 = R"(
  templates: gpt2
  input: [24]
  input_kind: tokens
  layers:
    - embedding: {name: transformer.wte, vocab_size: 131, features: 32}
    - positions: {name: transformer.wpe, max_positions: 24}
    - gpt2_block: {name: "transformer.h.${index}", features: 32, heads: 4, residual_std: 0.02}
      repeat: 2
    - layer_norm: {name: transformer.ln_f}
    - linear: {name: lm_head, out_features: 131, bias: false, weight_of: transformer.wte}
data: {format: text, train: none.txt, val: null}
)";
constexpr const char* kLlama = R"(
  templates: llama_135m
  input: [24]
  input_kind: tokens
  layers:
    - embedding: {name: model.embed_tokens, vocab_size: 131, features: 32}
    - llama_block:
        name: model.layers.${index}
        features: 32
        heads: 4
        kv_heads: 2
        head_features: 8
        hidden: 56
        theta: 100000
      repeat: 2
    - rms_norm: {name: model.norm, eps: 1.0e-5}
    - linear: {name: lm_head, out_features: 131, bias: false, weight_of: model.embed_tokens}
data: {format: text, train: none.txt, val: null}
)";
constexpr const char* kVit = R"(
  templates: vit_b_16
  input: [3, 32, 32]
  layers:
    - vit_patches: {features: 32, size: 8, patches: 16}
    - vit_block: {name: "blocks.${index}", features: 32, heads: 4}
      repeat: 2
    - vit_head: {features: 32, classes: 10}
data: {format: synthetic}
)";

const std::map<std::string, std::string>& networks() {
  static const std::map<std::string, std::string> table = {{"gpt2", kGpt2}, {"llama", kLlama}, {"vit", kVit}};
  return table;
}

std::shared_ptr<const Recipe> network_recipe(const std::string& network,
                                             const std::string& optimizer = "{name: sgd}") {
  return Recipe::parse("version: 1\nmodel:" + networks().at(network) +
                           "training: {global_batch_size: 4, max_duration: 20ba}\noptimizer: " + optimizer,
                       "r.yaml", {});
}

std::string published(const std::string& network) {
  return std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/networks/" + network + ".safetensors";
}

void load_published(Executable& executable, const std::string& network) {
  load_weights(executable, published(network), {});
}

/// The numbers of one batch from a tensor that holds several.
std::vector<float> batch_of(const Fixture& fixture, const std::string& tensor, size_t batch) {
  const std::vector<float> all = fixture.values(tensor);
  const auto size = static_cast<std::ptrdiff_t>(all.size() / kBatches);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(batch) * size;
  return {begin, begin + size};
}

void give_batch(Session& session, const std::string& network, size_t batch) {
  const Fixture fixture("networks");
  const char* input = network == "vit" ? input_name::kImages : input_name::kTokens;
  session.set({{input, batch_of(fixture, network + "/inputs", batch)},
               {input_name::kLabels, batch_of(fixture, network + "/labels", batch)}});
}

Program training_program(const RunSpec& spec) {
  Program program;
  run_passes(program, passes_for(spec, {.lr_table = std::vector<float>(20, spec.recipe().optimizer->lr)}));
  return program;
}

double furthest_apart(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// Each loss is within 1e-4 of PyTorch's, or within three times the spread of PyTorch's own with other
/// threads and
/// kernels.
void check_curve(const std::string& network, const std::string& name, const std::string& optimizer) {
  const Fixture fixture("networks");
  const std::string curve = network + "." + name;
  const std::vector<double> expected = fixture.doubles(curve + "/losses"),
                            spread = fixture.doubles(curve + "/spread");
  CHECK(expected.front() - expected.back() > 0.4);  // the loss must change
  for (const int threads : {1, 2}) {
    const auto recipe = network_recipe(network, optimizer);
    const Backend backend = make_cpu_backend(threads);
    Session session(training_program(recipe), backend);
    load_published(session.executable(), network);
    session.set(input_name::kWeights, std::vector<float>(kSamples, 1.0f / kSamples));
    double bound = 1e-4;
    for (size_t step = 0; step < expected.size(); ++step) {
      INFO(curve << ", step " << step << ", " << threads << " threads");
      give_batch(session, network, step % kBatches);
      session.run(entry_name::kTrainStep);
      bound = std::max(bound, 3 * spread[step]);
      CHECK(std::abs(session.output(entry_name::kTrainStep, output_name::kLoss)[0] - expected[step]) < bound);
    }
  }
}

}  // namespace

TEST_CASE("networks: logits are those of transformers and timm, with their files of weights") {
  const Fixture fixture("networks");
  for (const auto& [network, text] : networks()) {
    INFO(network);
    const auto recipe = network_recipe(network);
    const Backend backend = make_cpu_backend(2);
    Session session(training_program(recipe), backend);
    load_published(session.executable(), network);
    session.set(input_name::kWeights, std::vector<float>(kSamples, 1.0f / kSamples));
    give_batch(session, network, 0);
    session.run(entry_name::kEvaluate);
    CHECK(furthest_apart(session.output(entry_name::kEvaluate, output_name::kLogits),
                         fixture.doubles(network + "/logits")) < 1e-4);
  }
}

TEST_CASE(
    "networks: greedy tokens are those of transformers, and cached logits those of all tokens at once") {
  const Fixture fixture("networks");
  for (const std::string network : {"gpt2", "llama"}) {
    INFO(network);
    const auto recipe = network_recipe(network);
    const auto cpu = make_cpu_backend(2);
    Executable executable(
        make_job(recipe, *cpu.planner,
                 {.use = {.purpose = Purpose::generate, .generation = {.positions = 24, .piece = 4}}})
            .plan,
        *cpu.device);
    initialize(executable, 1);
    load_trained(executable, {.model = published(network), .averages = {}, .tied = {}});
    const std::vector<float> stored = fixture.values(network + "/greedy");
    const std::vector<int32_t> expected(stored.begin(), stored.end());
    constexpr size_t kPrompt = 5;
    Generation generation(executable, 24);
    std::vector<int32_t> found(expected.begin(), expected.begin() + kPrompt);
    continue_prompt(generation, std::vector<int32_t>(found),
                    {.tokens = 12, .vocabulary = 131, .sampling = {.temperature = 0}},
                    [&](int64_t, int32_t token) { found.push_back(token); });
    CHECK(found == expected);

    const std::vector<double> logits = fixture.doubles(network + "/logits");
    const std::vector<float> tokens = batch_of(fixture, network + "/inputs", 0);
    std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + kPrompt);
    Generation again(executable, 24);
    again.start(prompt);
    for (size_t place = kPrompt; place <= 24; ++place) {
      INFO("place " << place);
      const std::span<const float> next = again.next();
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>((place - 1) * 131);
      CHECK(furthest_apart({next.begin(), next.begin() + 131}, {row, row + 131}) < 1e-5);
      if (place < 24) again.append(std::vector<int32_t>{static_cast<int32_t>(tokens[place])});
    }
  }
}

TEST_CASE(
    "networks: a file that leaves out the first part of all names is read, its other tensors are refused") {
  const test::ScratchDirectory scratch;
  const SafetensorsFile whole(published("gpt2"));
  const auto write_without = [&](const std::string& prefix, const std::string& more) {
    std::vector<StoredTensor> stored;
    std::vector<const StoredTensor*> from;
    for (const StoredTensor& tensor : whole.tensors()) {
      stored.push_back({.name = tensor.name.substr(prefix.size()), .dtype = "F32", .shape = tensor.shape});
      from.push_back(&tensor);
    }
    if (!more.empty()) stored.push_back({.name = more, .dtype = "F32", .shape = {1}});
    write_safetensors(scratch / "part.safetensors", stored, {}, [&](size_t i, const ByteSink& sink) {
      const std::vector<float> values = i < from.size() ? whole.read_floats(*from[i]) : std::vector<float>{0};
      sink(std::as_bytes(std::span(values)));
    });
  };
  const auto recipe = network_recipe("gpt2");
  const Backend backend = make_cpu_backend(1);
  Session session(training_program(recipe), backend);
  const auto load_part = [&](const std::vector<std::string>& replaced) {
    return load_weights(session.executable(), scratch / "part.safetensors", {replaced, {}});
  };
  write_without("transformer.", "");
  CHECK(load_part({}).loaded.size() == whole.tensors().size());
  for (const StoredTensor& tensor : whole.tensors()) {
    INFO(tensor.name);
    CHECK(session.executable().read(session.id(tensor.name)) == whole.read_floats(tensor));
  }
  write_without("transformer.", "h.0.attn.bias");
  CHECK_THAT(test::error_text(ExitCode::data, [&] { load_part({}); }),
             Catch::Matchers::ContainsSubstring("the network has no 'h.0.attn.bias'"));
  CHECK(load_part({"h.*.attn.bias"}).left == std::vector<std::string>{"h.0.attn.bias"});
  write_without("trans", "");
  CHECK_THAT(test::error_text(ExitCode::data, [&] { load_part({}); }),
             Catch::Matchers::ContainsSubstring("the file has no 'transformer.wte.weight'"));
}

TEST_CASE("networks: 20 steps of GPT-2 with every optimiser give PyTorch's losses") {
  check_curve("gpt2", "sgd", "{name: sgd, lr: 0.05, momentum: 0.9}");
  check_curve("gpt2", "adam", "{name: adam, lr: 0.001}");
  check_curve("gpt2", "adamw", "{name: adamw, lr: 0.001, weight_decay: 0.1}");
  check_curve("gpt2", "rmsprop", "{name: rmsprop, lr: 0.001}");
  check_curve("gpt2", "lars", "{name: lars, lr: 0.5, momentum: 0.9, trust_coefficient: 0.02, no_decay: []}");
  check_curve("gpt2", "lion", "{name: lion, lr: 3.0e-4, weight_decay: 0.1}");
  check_curve("gpt2", "muon", "{name: muon, lr: 0.01, adamw_lr_factor: 0.1}");
}

TEST_CASE("networks: 20 steps of Llama and of the vision transformer give PyTorch's losses") {
  check_curve("llama", "adamw", "{name: adamw, lr: 0.001, weight_decay: 0.1}");
  check_curve("vit", "adamw", "{name: adamw, lr: 0.001, weight_decay: 0.1}");
}

}  // namespace trainer
