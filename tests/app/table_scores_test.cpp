// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/regular_file.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using nlohmann::json;

const std::string kScoreFixtures = std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/table_scores/";

/// The network of scripts/fixtures/make_table_score_fixtures.py; columns that are not the target are left
/// out.
std::string score_recipe(const json& training) {
  json ignored = json::array();
  for (const char* column : {"kind", "rain", "wet", "cold"}) {
    if (std::ranges::find(training["target"], column) == training["target"].end()) ignored.push_back(column);
  }
  const std::string loss =
      training["are_sets"] ? "{name: binary_cross_entropy, pos_weight: " + training["weights"].dump() + "}"
                           : "{name: cross_entropy, class_weights: balanced}";
  return R"(version: 1
run: {seed: 3, output_dir: run}
model:
  input_kind: features
  input: [3]
  layers:
    - linear: {name: fc, out_features: )" +
         std::to_string(training["names"].size()) + "}\n  initial_weights: " + kScoreFixtures +
         training["weight_file"].get<std::string>() + "\ndata:\n  format: table\n  train: " + kScoreFixtures +
         "train.csv\n  val: " + kScoreFixtures +
         "val.csv\n  workers: 0\n  table: {target: " + training["target"].dump() +
         ", ignore: " + ignored.dump() + "}\nloss: " + loss + R"(
training: {max_duration: 15ba, global_batch_size: 120}
validation: {metrics: [auroc]}
optimizer: {name: sgd, lr: 0.2, momentum: 0}
logging: {interval: 1ba}
checkpoint: {keep_best: none}
device: {type: cpu, threads: 1}
)";
}

TEST_CASE(
    "tables: balanced class weights and auroc of classes and of columns of 0 and 1 are scikit-learn's") {
  const json all = json::parse(read_text(kScoreFixtures + "expected.json").value());
  REQUIRE(all.size() == 3);
  for (const json& training : all) {
    const Workspace workspace;
    workspace.write("r.yaml", score_recipe(training));
    const Outcome trained = run_trainer({"r.yaml"}, workspace.path());
    INFO(training["target"] << trained.errors);
    REQUIRE(trained.code == 0);
    const std::string metrics = workspace.read("run/metrics.jsonl");
    const std::vector<double> losses = losses_in(metrics, "train");
    json validated;
    for (const std::string& line : lines_of(metrics)) {
      const json each = json::parse(line);
      if (each["split"] == "validation") validated = each;
    }
    // The loss is weighted, so its values tell whether the weights are the expected ones.
    REQUIRE(losses.size() == training["losses"].size());
    for (size_t i = 0; i < losses.size(); ++i)
      CHECK_THAT(losses[i], WithinRel(training["losses"][i].get<double>(), 1e-5));
    CHECK_THAT(validated.at("auroc").get<double>(), WithinAbs(training["auroc"].get<double>(), 1e-5));
    const Outcome evaluated = run_trainer({"eval", "run", "--json"}, workspace.path());
    REQUIRE(evaluated.code == 0);
    CHECK(json::parse(evaluated.output).at("auroc") == validated.at("auroc"));
  }
}

}  // namespace
}  // namespace trainer
