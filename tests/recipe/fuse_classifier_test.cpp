// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/base/rng.h"
#include "core/recipe/assemble.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

constexpr int64_t kSamplesOfClassifier = 5, kLength = 6, kClasses = 11;

/// Tokens, a norm, and a head with a bias, or the embedding's table.
std::shared_ptr<const Recipe> classifier_recipe(bool tied, const std::string& loss,
                                                const std::vector<std::string>& more) {
  const std::string head = tied ? "{out_features: 11, bias: false, weight_of: tokens}" : "{out_features: 11}";
  return Recipe::parse(R"(version: 1
model:
  input: [6]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 11, features: 8, name: tokens}
    - layer_norm
    - linear: )" + head + R"(
data: {format: synthetic}
training: {global_batch_size: 5}
optimizer: {name: sgd, lr: 0.5}
validation: {metrics: [perplexity, top1]}
loss: )" + loss + "\n",
                       "r.yaml", more);
}

/// The passes of training, the classifier's with pieces of at most this many samples; 0: without it.
Program classifier_program(const RunSpec& spec, int64_t of_piece) {
  Program program;
  std::vector<Pass> passes = passes_for(spec, {.lr_table = {0.5f}});
  const auto own = std::ranges::find(passes, "fuse_classifier", &Pass::name);
  REQUIRE(own != passes.end());
  *own = fuse_classifier(of_piece == 0 ? int64_t{1} << 40 : of_piece * kLength * kClasses * 4);
  run_passes(program, passes);
  return program;
}

using Given = std::map<std::string, std::vector<float>>;

Given given_tokens() {
  RandomStream random(random_key(5, "classifier"));
  std::vector<float> tokens, labels, weights(kSamplesOfClassifier, 0.2f);
  for (int64_t i = 0; i < kSamplesOfClassifier * kLength; ++i) {
    tokens.push_back(static_cast<float>(random.next_below(kClasses)));
    labels.push_back(static_cast<float>(random.next_below(kClasses)));
  }
  weights[1] = 0;  // a sample that fills the batch
  return {{input_name::kTokens, tokens}, {input_name::kLabels, labels}, {input_name::kWeights, weights}};
}

/// Outputs of a step and of evaluation, and the weights between them.
std::vector<std::vector<double>> results_of(const Program& program, const Backend& backend,
                                            const Given& given) {
  Session session(program, backend, 3);
  session.set(given);
  std::vector<std::vector<double>> results;
  for (const char* name : {entry_name::kTrainStep, entry_name::kEvaluate}) {
    session.run(name);
    for (const NamedTensor& output : program.find_entry(name)->outputs) {
      if (output.name != output_name::kLogits) results.push_back(session.output(name, output.name));
    }
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::parameter) results.push_back(session.persistent(tensor.name));
    }
  }
  return results;
}

/// Elements of the largest tensor that an entry makes.
int64_t largest_made(const Program& program, const char* entry) {
  int64_t largest = 0;
  for (const Node& node : program.find_entry(entry)->nodes) {
    for (const TensorId id : node.outputs) {
      if (id != kNone && !is_persistent(program.tensor(id).role))
        largest = std::max(largest, numel(program.spec(id).shape));
    }
  }
  return largest;
}

void check_same(const std::vector<std::vector<double>>& found,
                const std::vector<std::vector<double>>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("result " << i);
    CHECK(relative_error(found[i], expected[i]) <= tolerance);
  }
}

void check_pieces(const RunSpec& spec, const Backend& backend, double tolerance) {
  const Given given = given_tokens();
  const auto expected = results_of(classifier_program(spec, 0), backend, given);
  for (const int64_t of_piece : {1, 2, 4}) {
    INFO(of_piece << " samples a piece");
    const Program program = classifier_program(spec, of_piece);
    // Of logits or features, whichever are more; the whole logits would be 5 * 6 * 11.
    for (const char* entry : {entry_name::kTrainStep, entry_name::kEvaluate})
      CHECK(largest_made(program, entry) <=
            std::max(of_piece * kLength * kClasses, kSamplesOfClassifier * kLength * 8));
    check_same(results_of(program, backend, given), expected, tolerance);
  }
}

}  // namespace

TEST_CASE("a classifier in pieces gives the loss, the metrics and the steps of the whole") {
  const Backend reference = make_reference_backend(), cpu = make_cpu_backend(2);
  for (const char* loss :
       {"{name: cross_entropy}", "{name: cross_entropy, label_smoothing: 0.1}",
        "{name: cross_entropy, ignore_index: 3, class_weights: [1, 2, 1, 1, 3, 1, 1, 0, 1, 1, 1]}",
        "{name: focal}", "{name: focal, gamma: 0.5, ignore_index: 3}"}) {
    for (const bool tied : {false, true}) {
      INFO(loss << (tied ? ", tied" : ""));
      const auto recipe = classifier_recipe(tied, loss, {});
      check_pieces(recipe, reference, 1e-12);
      check_pieces(recipe, cpu, 1e-5);
    }
  }
}

TEST_CASE("a classifier in pieces: several labels, whose weights belong to classes and not to samples") {
  constexpr int64_t kFeatures = 3, kOutputs = kLength * kClasses;  // logits of a sample: as above
  std::vector<std::string> weights;
  for (int64_t i = 0; i < kOutputs; ++i)
    weights.push_back(fmt::format("{}", 0.5 + static_cast<double>(i % 7)));
  const auto recipe = Recipe::parse(fmt::format(R"(version: 1
model:
  input: [1, 1, 3]
  layers: [flatten, linear: {}]
data: {{format: synthetic}}
training: {{global_batch_size: 5}}
optimizer: {{name: sgd, lr: 0.5}}
validation: {{metrics: []}}
loss: {{name: binary_cross_entropy, pos_weight: [{}]}}
)",
                                                kOutputs, fmt::join(weights, ", ")),
                                    "r.yaml", {});
  RandomStream random(random_key(6, "several labels"));
  Given given{{input_name::kWeights, {0.2f, 0, 0.2f, 0.2f, 0.2f}}};
  for (int64_t i = 0; i < kSamplesOfClassifier * kFeatures; ++i)
    given[input_name::kImages].push_back(static_cast<float>(random.next_below(100)) / 50 - 1);
  for (int64_t i = 0; i < kSamplesOfClassifier * kOutputs; ++i)
    given[input_name::kTargets].push_back(static_cast<float>(random.next_below(2)));
  const Backend backends[] = {make_reference_backend(), make_cpu_backend(2)};
  for (const Backend& backend : backends) {
    const auto expected = results_of(classifier_program(recipe, 0), backend, given);
    for (const int64_t of_piece : {1, 2, 4}) {
      INFO(of_piece << " samples a piece");
      const Program program = classifier_program(recipe, of_piece);
      for (const char* entry : {entry_name::kTrainStep, entry_name::kEvaluate})
        CHECK(largest_made(program, entry) <= std::max(of_piece, kFeatures) * kOutputs);  // or the weights'
      check_same(results_of(program, backend, given), expected, &backend == backends ? 1e-12 : 1e-5);
    }
  }
}

TEST_CASE("a classifier in pieces: with scaled losses and micro-batches") {
  const Backend reference = make_reference_backend();
  const auto recipe = classifier_recipe(true, "cross_entropy",
                                        {"training.global_batch_size=10", "training.micro_batch_size=5"});
  Program program = classifier_program(recipe, 2);
  for (const char* entry : {entry_name::kAccumulateFirst, entry_name::kAccumulateNext})
    CHECK(largest_made(program, entry) <= kSamplesOfClassifier * kLength * 8);
}

TEST_CASE("a classifier whose logits something else reads stays whole") {
  const auto recipe = Recipe::parse(R"(version: 1
model:
  input: [6]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 11, features: 8}
    - linear: {out_features: 11, name: head}
    - gelu
    - add: {inputs: [head, "2"]}
data: {format: synthetic}
training: {global_batch_size: 5}
)",
                                    "r.yaml", {});
  const Program program = classifier_program(recipe, 1);
  CHECK(largest_made(program, entry_name::kTrainStep) == kSamplesOfClassifier * kLength * kClasses);
  CHECK(program.find_entry(entry_name::kEvaluate)->output(output_name::kLogits) != kNone);
}

}  // namespace trainer
