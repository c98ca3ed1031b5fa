// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/regular_file.h"
#include "core/data/csv.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using nlohmann::json;

const std::string kFixtures = std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/tables/";

json expected() {
  return json::parse(read_text(kFixtures + "expected.json").value());
}

/// The network of scripts/fixtures/make_table_fixtures.py.
std::string recipe_of(const json& training) {
  std::vector<std::string> ignored = {"row"};
  for (const char* target : {"spent", "visits"})
    if (training["targets"].size() == 1 && target == std::string("visits")) ignored.emplace_back(target);
  const std::string loss = training["loss"];
  const size_t targets = training["targets"].size();
  return R"(version: 1
run: {seed: 3, output_dir: run}
model:
  input_kind: features
  input: [4]
  categories: 2
  layers:
    - embedding: {name: embed, inputs: ["input:1"], vocab_size: 9, features: 3}
    - flatten: {name: flat}
    - concat: {inputs: [input, flat]}
    - linear: {name: fc1, out_features: 8}
    - relu
    - linear: {name: fc2, out_features: )" +
         std::to_string(targets) + R"(}
  initial_weights: )" +
         kFixtures + "weights" + std::to_string(targets) + R"(.safetensors
data:
  format: table
  train: )" +
         kFixtures + R"(train.csv
  val: )" +
         kFixtures +
         R"(val.csv
  workers: 0
  table: {target: )" +
         training["targets"].dump() + ", ignore: " + json(ignored).dump() + R"(}
training: {max_duration: 20ba, global_batch_size: 90}
loss: {name: )" +
         loss + (loss == "huber" ? ", delta: 0.5" : "") + R"(}
validation: {metrics: [mae, rmse, r2]}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
logging: {interval: 1ba}
checkpoint: {keep_best: none}
device: {type: cpu, threads: 1}
)";
}

std::vector<json> lines_of_split(const std::string& text, const std::string& split) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    json each = json::parse(line);
    if (each["split"] == split) lines.push_back(std::move(each));
  }
  return lines;
}

/// Of "spent" in the fixture's validation rows, by scikit-learn's definitions in double.
void check_metrics(const json& reported, const std::vector<double>& predictions) {
  const std::string text = read_text(kFixtures + "val.csv").value();
  CsvReader reader(text, "val.csv");
  CsvRow record;
  REQUIRE(reader.next(record));
  const auto column = static_cast<size_t>(std::ranges::find(record.fields, "spent") - record.fields.begin());
  std::vector<double> targets;
  while (reader.next(record)) targets.push_back(std::stod(std::string(record.fields.at(column))));
  REQUIRE(targets.size() == predictions.size());
  const auto count = static_cast<double>(targets.size());
  double mean = 0, absolute = 0, squared = 0, spread = 0;
  for (const double target : targets) mean += target / count;
  for (size_t i = 0; i < targets.size(); ++i) {
    const double error = predictions[i] - targets[i];
    absolute += std::abs(error);
    squared += error * error;
    spread += (targets[i] - mean) * (targets[i] - mean);
  }
  CHECK_THAT(reported["mae"].get<double>(), WithinRel(absolute / count, 1e-6));
  CHECK_THAT(reported["rmse"].get<double>(), WithinRel(std::sqrt(squared / count), 1e-6));
  CHECK_THAT(reported["r2"].get<double>(), WithinRel(1 - squared / spread, 1e-6));
}

TEST_CASE("tables: twenty steps of each loss, the metrics and the predictions are PyTorch's") {
  const json all = expected();  // not in the loop's head, which would not keep it
  REQUIRE(all["trainings"].size() == 4);
  for (const json& training : all["trainings"]) {
    const Workspace workspace;
    workspace.write("r.yaml", recipe_of(training));
    const Outcome trained = run_trainer({"r.yaml"}, workspace.path());
    INFO(training["loss"] << " " << training["targets"] << trained.errors);
    REQUIRE(trained.code == 0);
    const std::string metrics = workspace.read("run/metrics.jsonl");
    const auto steps = lines_of_split(metrics, "train");
    REQUIRE(steps.size() == training["losses"].size());
    for (size_t i = 0; i < steps.size(); ++i)
      CHECK_THAT(steps[i]["loss"].get<double>(), WithinRel(training["losses"][i].get<double>(), 2e-5));
    const auto validations = lines_of_split(metrics, "validation");
    REQUIRE(!validations.empty());
    for (const char* metric : {"mae", "rmse", "r2"})
      CHECK_THAT(validations.back()[metric].get<double>(), WithinRel(training[metric].get<double>(), 1e-4));

    workspace.write("new.csv", read_text(kFixtures + "val.csv").value());
    const Outcome predicted = run_trainer({"predict", "run", "new.csv", "--id", "row"}, workspace.path());
    REQUIRE(predicted.code == 0);
    std::istringstream in(predicted.output);
    size_t row = 0;
    std::vector<double> predictions;
    for (std::string line; std::getline(in, line); ++row) {
      const json found = json::parse(line);
      predictions.push_back(found[training["targets"][0].get<std::string>()]);
      CHECK(found["id"] == std::to_string(row));
      for (size_t c = 0; c < training["targets"].size(); ++c) {
        const double value = training["predicted"][row][c];
        CHECK_THAT(found[training["targets"][c].get<std::string>()].get<double>(),
                   WithinAbs(value, 2e-4 * std::abs(value) + 2e-3));
      }
    }
    CHECK(row == 40);
    if (training["targets"].size() == 1) check_metrics(validations.back(), predictions);
    const Outcome evaluated = run_trainer({"eval", "run", "--json"}, workspace.path());
    CHECK_THAT(json::parse(evaluated.output)["rmse"].get<double>(),
               WithinRel(validations.back()["rmse"].get<double>(), 1e-6));
  }
}

constexpr const char* kTable =
    "age,city,paid\n30,Rome,no\n41,Oslo,yes\n22,Rome,no\n55,Paris,yes\n19,Oslo,no\n60,Rome,yes\n";

TEST_CASE("tables: init writes a recipe that trains; the program says what does not fit") {
  const Workspace workspace;
  workspace.write("people.csv", kTable);
  const Outcome init = run_trainer({"init", "people.csv", "--target", "paid"}, workspace.path());
  INFO(init.errors);
  REQUIRE(init.code == 0);
  CHECK_THAT(init.output,
             ContainsSubstring("6 rows, 1 columns of numbers and 1 of categories; paid has 2 classes"));
  const auto train = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"people.yaml", "training.max_duration=2ba", "device.type=cpu",
                                    "device.threads=1"};
    all.insert(all.end(), words.begin(), words.end());
    return run_trainer(all, workspace.path());
  };
  CHECK(train({}).code == 0);
  const auto refused = [&](const std::vector<std::string>& words) {
    const Outcome ends = train(words);
    CHECK(ends.code == 78);
    return ends.errors;
  };
  CHECK_THAT(refused({"model.input=[2]"}),
             ContainsSubstring("model.input: expected 1, the columns of numbers in "
                               "data.train"));
  CHECK_THAT(refused({"model.categories=2"}), ContainsSubstring("model.categories: expected 1"));
  CHECK_THAT(refused({"model.layers[0].embedding.vocab_size=3"}),
             ContainsSubstring("the table has 3 rows, but the categories of data.train have 4"));
  CHECK_THAT(refused({"data.table.target=pai"}),
             ContainsSubstring("data.table.target: there is no column 'pai'") &&
                 ContainsSubstring("did you mean 'paid'?"));
  CHECK_THAT(refused({"data.table.target=null"}), ContainsSubstring("data.table"));
  CHECK_THAT(refused({"loss.name=mse", "validation.metrics=[]", "model.num_classes=1"}),
             ContainsSubstring("the column 'paid' has texts"));
  CHECK_THAT(refused({"model.input_kind=tokens"}), ContainsSubstring("data.format"));
  CHECK(run_trainer({"init", "people.csv"}, workspace.path()).code == 64);
}

TEST_CASE("tables: folds take each row once, and groups stay together") {
  const Workspace workspace;
  std::string text = "x,patient,y\n";
  for (int i = 0; i < 60; ++i)
    text += std::to_string(i) + ",p" + std::to_string(i / 5) + "," + (i % 3 == 0 ? "a" : "b") + "\n";
  workspace.write("t.csv", text);
  REQUIRE(run_trainer({"init", "t.csv", "--target", "y"}, workspace.path()).code == 0);
  for (const bool are_groups : {false, true}) {
    std::multiset<std::string> patients;
    int64_t rows = 0;
    for (int fold = 0; fold < 4; ++fold) {
      std::vector<std::string> words = {"data",
                                        "stats",
                                        "-c",
                                        "t.yaml",
                                        "--json",
                                        "data.val_fraction=0",
                                        "data.table.ignore=[]",
                                        "data.fold={of: 4, index: " + std::to_string(fold) + "}"};
      if (are_groups) words.emplace_back("data.split_by=patient");
      const Outcome stats = run_trainer(words, workspace.path());
      INFO(stats.errors);
      REQUIRE(stats.code == 0);
      const json report = json::parse(stats.output);
      CHECK(report["train"]["rows"].get<int64_t>() == 45);
      rows += report["val"]["rows"].get<int64_t>();
      for (const json& column : report["val"]["columns"]) {
        if (column["name"] == "y" && !are_groups) CHECK(column["values"]["a"] == 5);
        if (column["name"] != "patient") continue;
        for (const auto& [patient, count] : column["values"].items()) patients.insert(patient);
      }
    }
    CHECK(rows == 60);
    if (are_groups) CHECK(patients.size() == 12);
  }
  const auto error_of = [&](const std::string& word) {
    const Outcome ends = run_trainer({"plan", "-c", "t.yaml", "data.val_fraction=0", word}, workspace.path());
    CHECK(ends.code == 78);
    return ends.errors;
  };
  CHECK_THAT(error_of("data.fold={of: 3, index: 3}"),
             ContainsSubstring("must be below 3, the number of parts, got 3"));
  CHECK_THAT(error_of("data.fold={of: 1}"), ContainsSubstring("must be at least 2, got 1"));
  CHECK_THAT(error_of("data.split_by=patient"), ContainsSubstring("data.split_by"));
}

TEST_CASE("tables: a killed or resumed run has the bits of an undisturbed one, with any number of workers") {
  const Workspace workspace;
  workspace.write("people.csv", kTable);
  REQUIRE(run_trainer({"init", "people.csv", "--target", "paid"}, workspace.path()).code == 0);
  const auto train = [&](const std::string& name, const std::vector<std::string>& words) {
    std::vector<std::string> all = {
        "people.yaml",     "training.max_duration=30ba", "training.global_batch_size=2",
        "device.type=cpu", "device.threads=1",           "run.output_dir=" + name};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome ends = run_trainer(all, workspace.path());
    INFO(ends.errors);
    CHECK(ends.code == 0);
  };
  train("whole", {"data.workers=0"});
  train("parts", {"run.stop_after=11ba", "data.workers=2"});
  train("parts", {"data.workers=1"});
  const auto weights = [&](const std::string& name) { return workspace.read(name + "/model.safetensors"); };
  CHECK(weights("parts") == weights("whole"));
  // A run that resumes with other rows keeps the statistics that its weights know.
  train("other", {"run.stop_after=11ba"});
  const auto preparation = [&](const std::string& file) {
    const std::string bytes = workspace.read("other/" + file);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    return json::parse(bytes.substr(8, length))["__metadata__"]["table"].get<std::string>();
  };
  const std::string before = preparation("checkpoints/step-00000011/model.safetensors");
  workspace.write("people.csv", std::string(kTable) + "99,Lima,no\n");
  train("other", {"run.allow_changes=[data]"});
  CHECK(preparation("model.safetensors") == before);
  // The statistics are those of the training, also where its files are gone.
  workspace.write("new.csv", "paid,city,age\nno,Lima,\n");
  fs::remove(workspace.path() / "people.csv");
  const Outcome predicted = run_trainer({"predict", "parts", "new.csv"}, workspace.path());
  INFO(predicted.errors);
  CHECK(predicted.code == 0);
  CHECK_THAT(predicted.output, ContainsSubstring("\"name\":\"no\"") || ContainsSubstring("\"name\":\"yes\""));
  workspace.write("less.csv", "city\nLima\n");
  const Outcome less = run_trainer({"predict", "parts", "less.csv"}, workspace.path());
  CHECK(less.code == 65);
  CHECK_THAT(less.errors, ContainsSubstring("there is no column 'age'") &&
                              ContainsSubstring("the network was trained with that column"));
}

TEST_CASE("tables: made-up rows have metrics of numbers, by the spread of their own targets") {
  const Workspace workspace;
  workspace.write("r.yaml", R"(version: 1
run: {seed: 1, output_dir: run}
model: {input_kind: features, input: [6], layers: [linear: 2]}
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 100}}
loss: {name: mse}
training: {max_duration: 60ba, global_batch_size: 32}
validation: {metrics: [mae, rmse, r2]}
optimizer: {name: adamw, lr: 0.05, weight_decay: 0}
device: {type: cpu, threads: 1}
)");
  const Outcome trained = run_trainer({"r.yaml"}, workspace.path());
  INFO(trained.errors);
  REQUIRE(trained.code == 0);
  const json found = json::parse(run_trainer({"eval", "run", "--json"}, workspace.path()).output);
  const double error = found.at("rmse");
  CHECK(error < 0.1);
  // Three numbers between -1 and 1 add up to a target, so its variance is near 1.
  CHECK_THAT(1 - error * error, WithinAbs(found.at("r2").get<double>(), 0.01));
}

}  // namespace
}  // namespace trainer
