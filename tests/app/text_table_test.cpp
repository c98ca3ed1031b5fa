// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/regular_file.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using nlohmann::json;

const std::string kTextFixtures = std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/text_table/";

/// The network of scripts/fixtures/make_text_table_fixtures.py.
std::string text_recipe(const json& training) {
  return R"(version: 1
run: {seed: 3, output_dir: run}
model:
  input_kind: text
  input: [20]
  layers:
    - embedding: {name: wte, vocab_size: 256, features: 12}
    - positions: {name: wpe, max_positions: 40}
    - linear: {name: qkv, out_features: 36}
    - attention: {heads: 3}
    - mean_tokens
    - linear: {name: fc, out_features: )" +
         std::to_string(training["are_sets"] ? 2 : 3) + "}\n  initial_weights: " + kTextFixtures +
         training["weight_file"].get<std::string>() + "\ndata:\n  format: table\n  train: " + kTextFixtures +
         "train.csv\n  val: " + kTextFixtures +
         "val.csv\n  table: {text: text, target: " + training["target"].dump() +
         "}\nloss: {name: " + (training["are_sets"] ? "binary_cross_entropy" : "cross_entropy") + R"(}
training: {max_duration: 15ba, global_batch_size: 24}
validation: {metrics: []}
optimizer: {name: sgd, lr: 0.5, momentum: 0}
logging: {interval: 1ba}
checkpoint: {keep_best: none}
device: {type: cpu, threads: 1}
)";
}

/// Of each class of the next row, by its number.
std::vector<double> probabilities_in(const std::string& line) {
  const json sample = json::parse(line);
  const json& all = sample.at("probabilities");
  std::vector<double> found(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    // Of classes pairs, the most probable one first; of columns of 0 and 1 numbers.
    if (all[i].is_array()) {
      found.at(all[i][0].get<size_t>()) = all[i][1].get<double>();
    } else {
      found[i] = all[i].get<double>();
    }
  }
  return found;
}

TEST_CASE("texts of a table: losses and predictions are PyTorch's, whatever the padding") {
  const json all = json::parse(read_text(kTextFixtures + "expected.json").value());
  REQUIRE(all.size() == 2);
  for (const json& training : all) {
    INFO(training["target"]);
    for (const char* more : {"data.workers=0", "training.micro_batch_size=8"}) {
      const Workspace workspace;
      workspace.write("r.yaml", text_recipe(training));
      const Outcome trained = run_trainer({"r.yaml", more}, workspace.path());
      INFO(trained.errors);
      REQUIRE(trained.code == 0);
      const std::vector<double> losses = losses_in(workspace.read("run/metrics.jsonl"), "train");
      REQUIRE(losses.size() == training["losses"].size());
      for (size_t i = 0; i < losses.size(); ++i)
        CHECK_THAT(losses[i], WithinRel(training["losses"][i].get<double>(), 2e-5));
      const Outcome predicted = run_trainer({"predict", "run", kTextFixtures + "val.csv"}, workspace.path());
      INFO(predicted.errors);
      REQUIRE(predicted.code == 0);
      std::istringstream in(predicted.output);
      size_t row = 0;
      for (std::string line; std::getline(in, line); ++row) {
        const std::vector<double> found = probabilities_in(line);
        const json& expected = training["probabilities"].at(row);
        REQUIRE(found.size() == expected.size());
        for (size_t c = 0; c < found.size(); ++c)
          CHECK_THAT(found[c], WithinAbs(expected[c].get<double>(), 2e-5));
      }
      CHECK(row == training["probabilities"].size());
    }
  }
}

TEST_CASE("texts of a table: two lengths that hold every text give one prediction; export says why not") {
  const json training = {
      {"target", "kind"}, {"are_sets", false}, {"weight_file", "weights_classes.safetensors"}};
  const Workspace workspace;
  workspace.write("r.yaml", text_recipe(training));
  workspace.write("new.csv", "text\nabc\n\"\"\n\"a, b\"\n");
  REQUIRE(run_trainer({"r.yaml", "training.max_duration=2ba"}, workspace.path()).code == 0);
  const auto predicted = [&](const char* length) {
    const Outcome found = run_trainer({"predict", "run", "new.csv", length}, workspace.path());
    INFO(found.errors);
    REQUIRE(found.code == 0);
    return found.output;
  };
  std::istringstream shorter(predicted("model.input=[4]")), longer(predicted("model.input=[40]"));
  size_t rows = 0;
  for (std::string a, b; std::getline(shorter, a) && std::getline(longer, b); ++rows) {
    const std::vector<double> one = probabilities_in(a), other = probabilities_in(b);
    REQUIRE(one.size() == 3);
    for (size_t c = 0; c < one.size(); ++c) CHECK_THAT(one[c], WithinAbs(other.at(c), 1e-6));
  }
  CHECK(rows == 3);
  const Outcome exported = run_trainer({"export", "run", "--out", "m.onnx"}, workspace.path());
  CHECK(exported.code == 78);
  CHECK_THAT(exported.errors, ContainsSubstring("where the padding ends"));
}

TEST_CASE("texts of a table: what does not fit is refused at its key") {
  const json training = {
      {"target", "kind"}, {"are_sets", false}, {"weight_file", "weights_classes.safetensors"}};
  const Workspace workspace;
  workspace.write("r.yaml", text_recipe(training));
  for (const auto& [word, code, problem] : std::vector<std::tuple<std::string, int, std::string>>{
           {"data.table.text=null", 78, "missing key 'text'"},
           {"data.table.text=words", 78, "there is no column 'words'"},
           {"data.table.text=kind", 78, "is the target"},
           {"data.table.ignore=[number]", 78, "beside data.table.text"},
           {"data.table.categorical=[number]", 78, "beside data.table.text"},
           {"data.table.missing=error", 78, "beside data.table.text"},
           {"data.table.scale=none", 78, "beside data.table.text"},
           {"data.table.clip=0.1", 78, "beside data.table.text"},
           {"model.categories=1", 78, "features or series"},
           {"model.input_kind=tokens", 78, "input_kind"},
           {"data.mask_documents=true", 78, "each row has a text"},
           {"data.end_of_text=10", 78, "each row has a text"},
           {"data.tokenizer=none.json", 78, "none.json"},
           {"model.layers[0].embedding.vocab_size=200", 78, "data.tokenizer has 256 tokens"},
           {"model.input=[50]", 78, "50"}}) {
    INFO(word);
    const Outcome refused = run_trainer({"r.yaml", "model.initial_weights=null", word}, workspace.path());
    CHECK(refused.code == code);
    CHECK_THAT(refused.errors, ContainsSubstring(problem));
  }
}

}  // namespace
}  // namespace trainer
