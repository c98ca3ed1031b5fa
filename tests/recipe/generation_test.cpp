// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/rng.h"
#include "core/engine/executable.h"
#include "core/graph/builder.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/reshape.h"
#include "core/recipe/job.h"
#include "core/step/forward.h"
#include "core/train/generation.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

constexpr int64_t kContext = 23, kPieceOfTest = 6, kVocabulary = 19;

/// Two blocks: packed with fewer heads for keys and a window, then with three inputs.
constexpr const char* kNetwork = R"(version: 1
model:
  input: [23]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 19, features: 12, name: tokens}
    - linear: {out_features: 20, bias: false, name: packed}
    - attention: {heads: 6, kv_heads: 2, causal: true, sliding_window: 9, name: first}
    - add: {inputs: [first, tokens], name: sum}
    - linear: {out_features: 12, inputs: [sum], name: q}
    - linear: {out_features: 6, inputs: [sum], name: k}
    - linear: {out_features: 6, inputs: [sum], name: v}
    - attention: {heads: 4, kv_heads: 2, causal: true, inputs: [q, k, v], name: second}
    - add: {inputs: [second, sum]}
    - gelu
    - linear: {out_features: 19, name: head}
data: {format: text, train: none.txt, val: null}
training: {global_batch_size: 1}
)";

/// Positions of both kinds, normalisation, and a head that is the embedding's table.
constexpr const char* kPlaced = R"(version: 1
model:
  input: [23]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 19, features: 12, name: tokens}
    - positions: {max_positions: 23, name: placed}
    - rms_norm: {inputs: [placed]}
    - linear: {out_features: 20, bias: false}
    - rotary: {heads: 10, rotated: 8}
    - attention: {heads: 6, kv_heads: 2, causal: true, name: first}
    - add: {inputs: [first, placed]}
    - scale: {value: 0.7}
    - layer_norm
    - linear: {out_features: 19, bias: false, weight_of: tokens}
data: {format: text, train: none.txt, val: null}
training: {global_batch_size: 1}
)";

/// Queries and keys are normalised by head, as in Qwen3, and then rotated.
constexpr const char* kNormed = R"(version: 1
model:
  input: [23]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 19, features: 12, name: tokens}
    - linear: {out_features: 12, bias: false, inputs: [tokens], name: q_proj}
    - rms_norm: {heads: 3, name: q_norm}
    - rotary: {heads: 3, name: q}
    - linear: {out_features: 12, bias: false, inputs: [tokens], name: k_proj}
    - rms_norm: {heads: 3, name: k_norm}
    - rotary: {heads: 3, name: k}
    - linear: {out_features: 12, bias: false, inputs: [tokens], name: v}
    - attention: {heads: 3, causal: true, inputs: [q, k, v], name: first}
    - add: {inputs: [first, tokens]}
    - layer_norm: {heads: 2}
    - linear: {out_features: 19, bias: false}
data: {format: text, train: none.txt, val: null}
training: {global_batch_size: 1}
)";

std::shared_ptr<const Recipe> recipe_of(const std::string& text,
                                        const std::vector<std::string>& overrides = {}) {
  return Recipe::parse(text, "r.yaml", overrides);
}

/// With bf16 emulated, so that every processor tests it.
Backend backend_of(const RunSpec& spec) {
  Backend backend = make_cpu_backend(2, nullptr, true);
  if (const auto problem = backend.planner->set_precision(spec.recipe().training.parsed_precision()))
    throw std::runtime_error(*problem);
  return backend;
}

/// A network with weights that are large enough for its logits to differ much from place to place.
class GeneratingNetwork {
 public:
  GeneratingNetwork(const RunSpec& spec, Purpose purpose, const GenerationSize& size = {})
      : backend_(backend_of(spec)),
        executable_(make_job(spec, *backend_.planner, {.use = {.purpose = purpose, .generation = size}}).plan,
                    *backend_.device) {
    initialize(executable_, 3);
    for (const Tensor& tensor : executable_.plan().tensors) {
      const TensorId id = executable_.tensor(tensor.name);
      if (tensor.role == Role::parameter &&
          !executable_.plan().placements[static_cast<size_t>(id)].is_transient)
        draw(id);
    }
    executable_.prepare([&](TensorId id) { draw(id); });
    // Leftovers of other sequences must not matter.
    for (const Tensor& tensor : executable_.plan().tensors) {
      if (tensor.role == Role::cache) executable_.fill(executable_.tensor(tensor.name), 1000);
    }
  }
  Executable& executable() { return executable_; }

 private:
  void draw(TensorId id) {
    const Tensor& tensor = executable_.plan().tensors[static_cast<size_t>(id)];
    RandomStream random(random_key(7, tensor.name));
    std::vector<float> values(static_cast<size_t>(numel(tensor.spec.shape)));
    for (float& value : values) value = random.next_uniform() * 1.6f - 0.8f;
    executable_.write(id, values);
  }

  Backend backend_;
  Executable executable_;
};

std::vector<int32_t> tokens_of(int64_t count) {
  RandomStream random(random_key(11, "tokens"));
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.next_below(kVocabulary));
  return tokens;
}

/// The logits after each of the tokens, computed for all places at once.
std::vector<float> full_logits(const RunSpec& spec, std::vector<int32_t> tokens) {
  GeneratingNetwork network(spec, Purpose::predict);
  tokens.resize(kContext, 0);
  Executable& executable = network.executable();
  Buffer memory = executable.device().allocate_batch(kContext * 4);
  std::ranges::copy(tokens, reinterpret_cast<int32_t*>(memory.data()));
  executable.bind(executable.tensor(input_name::kTokens), memory.data());
  executable.run(executable.entry(entry_name::kPredict));
  return executable.read(executable.plan().entry(entry_name::kPredict).output(output_name::kLogits));
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max<double>(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// The largest difference of cached logits from those of `whole` for all places at once, from a prompt of
/// this many tokens to the end.
double cached_difference(const RunSpec& spec, int64_t prompt, int64_t sequences, const RunSpec& whole) {
  const std::vector<int32_t> tokens = tokens_of(kContext);
  const std::vector<float> full = full_logits(whole, tokens);
  GeneratingNetwork network(spec, Purpose::generate,
                            {.sequences = sequences, .positions = kContext, .piece = kPieceOfTest});
  Generation generation(network.executable(), kContext);
  generation.start(std::span(tokens).first(static_cast<size_t>(prompt)));
  double largest = 0;
  for (int64_t place = prompt;; ++place) {
    const std::span<const float> found = generation.next();
    for (int64_t row = 0; row < sequences; ++row) {
      largest = std::max(
          largest, largest_difference(
                       found.subspan(static_cast<size_t>(row * kVocabulary), kVocabulary),
                       std::span(full).subspan(static_cast<size_t>((place - 1) * kVocabulary), kVocabulary)));
    }
    if (place == kContext) return largest;
    generation.append(
        std::vector<int32_t>(static_cast<size_t>(sequences), tokens[static_cast<size_t>(place)]));
  }
}

/// Continuations of three tokens, one for each sequence.
std::vector<std::vector<int32_t>> continuations(const RunSpec& spec, int64_t sequences,
                                                const GenerationSettings& settings) {
  GeneratingNetwork network(spec, Purpose::generate, {.sequences = sequences});
  Generation generation(network.executable(), kContext);
  std::vector<std::vector<int32_t>> found(static_cast<size_t>(sequences));
  continue_prompt(generation, tokens_of(3), settings, [&](int64_t sequence, int32_t token) {
    found[static_cast<size_t>(sequence)].push_back(token);
  });
  return found;
}

std::string refusal(const std::string& text) {
  const auto recipe = recipe_of(text);
  return test::error_text(ExitCode::recipe, [&] { forward_program(recipe, {.purpose = Purpose::generate}); });
}

}  // namespace

TEST_CASE("an embedding's table is compared with the tokens that it reads, not with other inputs") {
  for (const char* ids : {input_name::kTokens, input_name::kNextTokens, "other"}) {
    INFO(ids);
    Program program;
    program.entries.emplace_back(entry_name::kEvaluate);
    Builder build(program, program.entries[0]);
    program.input(input_name::kTokens, {{2, 6}, DType::i32});
    const TensorId halves = build.emit<Reshape>({program.input(ids, {{2, 6}, DType::i32})}, Shape{4, 3});
    build.emit<Embedding>({halves, program.persistent("table", {{19, 5}, DType::f32}, Role::parameter, {})});
    CHECK_NOTHROW(check_vocabulary(program, 19));
    if (std::string_view(ids) == "other") {
      CHECK_NOTHROW(check_vocabulary(program, 20));
    } else {
      CHECK_THROWS_WITH(check_vocabulary(program, 20),
                        Catch::Matchers::ContainsSubstring("token ids reach 19"));
    }
  }
}

TEST_CASE("generation: cached logits are those of the whole sequence at once") {
  const auto recipe = recipe_of(kNetwork);
  constexpr int64_t kP = kPieceOfTest;
  for (const int64_t prompt :
       {int64_t{1}, int64_t{2}, kP - 1, kP, kP + 1, kP + 2, 2 * kP + 1, kContext - 1, kContext}) {
    for (const int64_t sequences : {1, 3}) {
      INFO("prompt of " << prompt << ", " << sequences << " sequences");
      CHECK(cached_difference(recipe, prompt, sequences, recipe) < 1e-5);
    }
  }
}

TEST_CASE("generation: norms of each head are cached as they are computed for the whole sequence") {
  const auto recipe = recipe_of(kNormed);
  const Program program = forward_program(recipe);
  CHECK(program.spec(program.find("q_norm.weight")).shape == Shape{4});
  for (const int64_t prompt : {int64_t{1}, kPieceOfTest, kPieceOfTest + 2, kContext - 1}) {
    INFO("prompt of " << prompt);
    CHECK(cached_difference(recipe, prompt, 2, recipe) < 1e-5);
  }
}

TEST_CASE("generation: positions go on behind the prompt") {
  const auto recipe = recipe_of(kPlaced);
  for (const int64_t prompt : {int64_t{1}, kPieceOfTest, kPieceOfTest + 2, kContext - 1}) {
    INFO("prompt of " << prompt);
    CHECK(cached_difference(recipe, prompt, 2, recipe) < 1e-5);
  }
}

TEST_CASE("generation: logits in bf16 are those in f32, as far as bf16 goes") {
  if (make_cpu_backend(2, nullptr, true).planner->set_precision(Precision::amp_bf16)) return;
  for (const char* network : {kNetwork, kPlaced}) {
    const auto exact = recipe_of(network);
    const auto low = recipe_of(network, {"training.precision=amp_bf16", "device.emulate_bf16=true"});
    const std::vector<float> full = full_logits(exact, tokens_of(kContext));
    const double largest = largest_difference(full, std::vector<float>(full.size(), 0));
    for (const int64_t prompt : {int64_t{1}, kPieceOfTest + 2, kContext}) {
      INFO("prompt of " << prompt << ", logits up to " << largest);
      const double difference = cached_difference(low, prompt, 2, exact);
      CHECK(difference < 0.01 * largest);  // a number of bf16 is off by up to 1 in 512, and a few are between
      CHECK(difference > 0);
    }
  }
}

TEST_CASE("generation: in bf16 the caches are bf16, and no weight is cast for a token") {
  const auto recipe = recipe_of(kNetwork, {"training.precision=amp_bf16", "device.emulate_bf16=true"});
  const auto cpu = make_cpu_backend(2, nullptr, true);
  if (cpu.planner->set_precision(Precision::amp_bf16)) return;
  const Job job = make_job(recipe, *cpu.planner, {.use = {.purpose = Purpose::generate}});
  int caches = 0;
  for (const Tensor& tensor : job.plan.tensors) {
    caches += tensor.role == Role::cache ? 1 : 0;
    CHECK((tensor.role != Role::cache || tensor.spec.dtype == DType::bf16));
  }
  CHECK(caches == 4);
  CHECK(job.plan.has_entry(entry_name::kPrepare));
  for (const char* entry : {entry_name::kDecode, entry_name::kPrefill}) {
    for (const PlannedNode& planned : job.plan.entry(entry).nodes) {
      const Tensor& read = job.plan.tensors[static_cast<size_t>(planned.node.inputs[0])];
      CHECK((planned.node.op->name() != "cast" || read.role != Role::parameter));
    }
  }
}

TEST_CASE("generation: a key in the wrong place changes the logits") {
  const auto recipe = recipe_of(kNetwork);
  GeneratingNetwork network(recipe, Purpose::generate, {.positions = kContext, .piece = kPieceOfTest});
  Executable& executable = network.executable();
  const std::vector<int32_t> tokens = tokens_of(9);
  Generation generation(executable, kContext);
  generation.start(tokens);
  const std::span<const float> first = generation.next();
  const std::vector<float> right(first.begin(), first.end());
  for (const char* name :
       {"first.cached_keys", "first.cached_values", "second.cached_keys", "second.cached_values"}) {
    INFO(name);
    const TensorId cache = executable.tensor(name);
    const std::vector<float> kept = executable.read(cache);
    std::vector<float> moved = kept;
    const auto width =
        static_cast<size_t>(executable.plan().tensors[static_cast<size_t>(cache)].spec.shape[2]);
    std::rotate(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(width), moved.end());
    executable.write(cache, moved);
    CHECK(largest_difference(generation.next(), right) > 1e-3);
    executable.write(cache, kept);
    CHECK(largest_difference(generation.next(), right) == 0);
  }
}

TEST_CASE("generation: greedy tokens are the largest logits of the whole sequence") {
  const auto recipe = recipe_of(kNetwork);
  const auto found =
      continuations(recipe, 1, {.tokens = 20, .vocabulary = kVocabulary, .sampling = {.temperature = 0}});
  REQUIRE(found[0].size() == 20);
  std::vector<int32_t> tokens = tokens_of(3);
  tokens.insert(tokens.end(), found[0].begin(), found[0].end());
  const std::vector<float> full = full_logits(recipe, tokens);
  for (size_t place = 3; place < tokens.size(); ++place) {
    const auto row = std::span(full).subspan((place - 1) * kVocabulary, kVocabulary);
    CHECK(tokens[place] == std::ranges::max_element(row) - row.begin());
  }
}

TEST_CASE("generation: a seed gives the same text again, whatever is generated beside it") {
  const auto recipe = recipe_of(kNetwork);
  const GenerationSettings settings{
      .tokens = 15, .vocabulary = kVocabulary, .sampling = {.temperature = 2}, .seed = 5};
  const auto all = continuations(recipe, 4, settings);
  CHECK(all == continuations(recipe, 4, settings));
  CHECK(std::set(all.begin(), all.end()).size() == 4);
  const auto two = continuations(recipe, 2, settings);
  CHECK(two[0] == all[0]);
  CHECK(two[1] == all[1]);
  GenerationSettings other = settings;
  other.seed = 6;
  CHECK(continuations(recipe, 4, other) != all);
}

TEST_CASE("generation: sequences end behind the token that ends a text, each for itself") {
  const auto recipe = recipe_of(kNetwork);
  GenerationSettings settings{
      .tokens = 20, .vocabulary = kVocabulary, .sampling = {.temperature = 2}, .seed = 5};
  const auto all = continuations(recipe, 3, settings);
  settings.end = all[1][4];
  const auto ended = continuations(recipe, 3, settings);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto end = std::ranges::find(all[i], *settings.end);
    const std::vector<int32_t> expected(all[i].begin(), end == all[i].end() ? end : end + 1);
    CHECK(ended[i] == expected);
  }
  settings = {.tokens = 20, .vocabulary = 4, .sampling = {.temperature = 2}};
  for (const auto& tokens : continuations(recipe, 3, settings)) CHECK(std::ranges::max(tokens) < 4);
}

TEST_CASE("generation: memory is planned, and caches grow in place") {
  const auto recipe = recipe_of(kNetwork);
  const auto cpu = make_cpu_backend(2);
  const GenerationSize size{.sequences = 3, .positions = 16};
  const Job job = make_job(recipe, *cpu.planner, {.use = {.purpose = Purpose::generate, .generation = size}});
  // Keys and values of 4 and of 6 features.
  CHECK(job.plan.persistent_by_kind.at("cache") == int64_t{3} * 16 * 4 * (4 + 4 + 6 + 6));
  for (const PlannedEntry& entry : job.plan.entries) {
    for (const PlannedNode& planned : entry.nodes)
      CHECK((planned.node.op->name() != "assign" || !planned.runs));
  }
  // The prompt's logits are not needed, nor are the nodes that only they need.
  for (const PlannedNode& planned : job.plan.entry(entry_name::kPrefill).nodes)
    CHECK(planned.node.origin.path.find("layers[10]") == std::string::npos);
}

TEST_CASE("generation: networks that do not go token by token are refused") {
  const std::string text = kNetwork;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return refusal(changed);
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(with("causal: true, inputs", "causal: false, inputs"),
             ContainsSubstring("layers[7]") && ContainsSubstring("set causal: true"));
  CHECK_THAT(with("    - gelu\n", "    - flatten\n"),
             ContainsSubstring("layers[9]") && ContainsSubstring("joins positions"));
  CHECK_THAT(refusal("version: 1\nmodel: {input: [1, 4, 4], layers: [flatten, linear: 3]}\n"
                     "data: {format: synthetic}\n"),
             ContainsSubstring("model.input_kind") && ContainsSubstring("read tokens"));
}

TEST_CASE("generation: what a layer makes of a token depends on no other one, or the layer is refused") {
  const auto text = [](const std::string& layers) {
    return fmt::format(
        "version: 1\nmodel:\n  input: [23]\n  input_kind: tokens\n  layers: [embedding: {{vocab_size: 19, "
        "features: 12, name: tokens}}, {}, linear: {{out_features: 19, name: head}}]\n"
        "data: {{format: text, train: none.txt, val: null}}\ntraining: {{global_batch_size: 1}}\n",
        layers);
  };
  const std::vector<int32_t> tokens = tokens_of(kContext);
  constexpr int64_t kChanged = 11;
  std::vector<int32_t> changed = tokens;
  changed[kChanged] = (changed[kChanged] + 1) % kVocabulary;
  for (const std::string layers :
       {"linear: 8", "layer_norm", "rms_norm", "softmax", "log_softmax", "scale: {value: 0.5}", "mish",
        "positions: {max_positions: 23}", "rotary: {heads: 2}", "slice: {axis: 2, begin: 3}",
        "pad: {axis: 2, after: 3}", "dropout: 0.5", "stochastic_depth: 0.5",
        "reshape: [-1, 4, 3], reshape: [-1, 12]",
        "linear: {out_features: 12, name: left}, concat: {axis: 2, inputs: [left, tokens]}",
        "linear: {out_features: 12, name: left}, mul: {inputs: [left, tokens]}"}) {
    INFO(layers);
    const auto recipe = recipe_of(text(layers));
    forward_program(recipe, {.purpose = Purpose::generate});
    const std::vector<float> before = full_logits(recipe, tokens), after = full_logits(recipe, changed);
    for (size_t i = 0; i < before.size(); ++i) {
      if (static_cast<int64_t>(i) / kVocabulary != kChanged) CHECK(before[i] == after[i]);
    }
    CHECK(before != after);
  }
  for (const std::string layers :
       {"transpose, linear: 23, transpose", "pad: {axis: 1, before: 1}, slice: {axis: 1, end: -1}",
        "class_token, slice: {axis: 1, begin: 1}", "reshape: [-1, 6], reshape: [-1, 12]",
        "matmul: {inputs: [tokens, tokens], transpose_b: true}"}) {
    INFO(layers);
    CHECK_THAT(refusal(text(layers)), Catch::Matchers::ContainsSubstring("joins positions"));
  }
}

TEST_CASE("generation: tables that are too small are refused, however short the pieces are") {
  using Catch::Matchers::ContainsSubstring;
  const std::string placed = kPlaced;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = placed;
    changed.replace(changed.find(from), from.size(), to);
    return refusal(changed);
  };
  CHECK_THAT(with("input: [23]", "input: [90]"),
             ContainsSubstring("layers[1].positions.max_positions") && ContainsSubstring("write 90 or more"));
  CHECK_THAT(with("out_features: 19, bias: false, weight_of: tokens", "out_features: 20"),
             ContainsSubstring("layers[0]") && ContainsSubstring("set vocab_size to 20 or more"));
}

}  // namespace trainer
