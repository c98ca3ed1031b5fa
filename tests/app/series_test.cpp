// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using nlohmann::json;

const char* const kSeriesRecipe = R"(version: 1
run: {seed: 3}
model:
  input_kind: series
  input: [6, 2]
  layers: [{linear: 8}, tanh, flatten, {linear: 1}]
data:
  format: table
  train: s.csv
  val_fraction: 0.25
  table: {target: power, window: {time: when, by: site, length: 6, horizon: 3}}
training: {max_duration: 30ba, global_batch_size: 16}
loss: {name: mse}
validation: {metrics: [mae, rmse]}
optimizer: {name: adam, lr: 0.01}
device: {type: cpu, threads: 1}
)";

/// Two sites with a wave each, every six hours; one has a day without rows.
std::string waves(int rows) {
  std::string text = "site,when,power,wind\n";
  for (const char* site : {"north", "south"}) {
    for (int i = 0; i < rows; ++i) {
      if (*site == 's' && i >= 40 && i < 44) continue;
      const int day = 1 + i / 4, month = 1 + (day - 1) / 28;
      char when[32];
      std::snprintf(when, sizeof when, "2013-%02d-%02dT%02d:00Z", month, 1 + (day - 1) % 28, i % 4 * 6);
      const double angle = 0.4 * i + (*site == 's' ? 1 : 0);
      text += std::string(site) + "," + when + "," + std::to_string(std::sin(angle)) + "," +
              std::to_string(std::cos(angle)) + "\n";
    }
  }
  return text;
}

std::vector<json> json_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_CASE("series: a run says the error of repetition, falls below it, and predicts what has no target yet") {
  const Workspace workspace;
  workspace.write("s.csv", waves(100));
  workspace.write("r.yaml", kSeriesRecipe);
  const Outcome trained =
      run_trainer({"r.yaml", "run.output_dir=run", "training.max_duration=200ba"}, workspace.path());
  INFO(trained.errors);
  REQUIRE(trained.code == 0);
  // Of 75 rows, and of 72 with a gap: 67 windows, and 64 but for those of 8 steps.
  CHECK_THAT(trained.errors,
             ContainsSubstring("training: 123 windows of 6 rows, 6 h apart, 8 across gaps in time left out"));
  const std::string told = "validation: 33 windows of 6 rows, 6 h apart; repeating the last value: mae ";
  REQUIRE_THAT(trained.errors, ContainsSubstring(told));
  const double repetition = std::stod(trained.errors.substr(trained.errors.find(told) + told.size()));
  const Outcome evaluated = run_trainer({"eval", "run", "--json"}, workspace.path());
  const double mae = json::parse(evaluated.output)["mae"];
  CHECK(mae < 0.5 * repetition);

  // Predictions need a window, not a target.
  fs::remove(workspace.path() / "s.csv");
  std::string days = "wind,power,site,when\n";
  for (int day = 1; day < 9; ++day) days += "0,1,north,2014-05-0" + std::to_string(day) + "\n";
  workspace.write("days.csv", days);
  const Outcome other_step = run_trainer({"predict", "run", "days.csv"}, workspace.path());
  CHECK(other_step.code == 65);
  CHECK_THAT(other_step.errors,
             ContainsSubstring("expected a window of 6 rows, each 6 h after the other by column "
                               "'when', found none in 1 series, of at most 8 rows, 3 across gaps"));
  workspace.write("new.csv", waves(8));
  const Outcome predicted = run_trainer({"predict", "run", "new.csv", "--id", "when"}, workspace.path());
  INFO(predicted.errors);
  REQUIRE(predicted.code == 0);
  const std::vector<json> lines = json_lines(predicted.output);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0]["time"] == "2013-01-02T06:00:00");
  CHECK(lines[2]["time"] == "2013-01-02T18:00:00");  // the last row
  CHECK(lines[2]["id"] == "2013-01-02T18:00Z");
  CHECK(lines[2]["by"] == "north");
  CHECK(lines[5]["by"] == "south");
  CHECK(std::abs(lines[2]["power"].get<double>() - std::sin(0.4 * 10)) < 4 * mae);
  const Outcome as_csv = run_trainer({"predict", "run", "new.csv", "--format", "csv"}, workspace.path());
  CHECK_THAT(as_csv.output, ContainsSubstring("sample,time,by,power,error\n0,2013-01-02T06:00:00,north,"));
}

TEST_CASE("series: eval of a file of validation has the targets of its windows") {
  const Workspace workspace;
  workspace.write("s.csv", waves(60));
  workspace.write("v.csv", waves(12));
  workspace.write("r.yaml", kSeriesRecipe);
  const Outcome trained = run_trainer(
      {"r.yaml", "run.output_dir=run", "data.val_fraction=0", "data.val=v.csv"}, workspace.path());
  INFO(trained.errors);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.errors, ContainsSubstring("validation: 8 windows of 6 rows"));
  const Outcome split = run_trainer({"predict", "run", "--split", "val"}, workspace.path());
  INFO(split.errors);
  const std::vector<json> lines = json_lines(split.output);
  REQUIRE(lines.size() == 8);
  double error = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const double angle = 0.4 * static_cast<double>(i % 4 + 8) + (i < 4 ? 0 : 1);
    error += std::abs(lines[i]["power"].get<double>() - std::sin(angle)) / 8;
  }
  const Outcome evaluated = run_trainer({"eval", "run", "--json"}, workspace.path());
  CHECK_THAT(json::parse(evaluated.output)["mae"].get<double>(), WithinRel(error, 1e-4));
}

TEST_CASE("series: a run with a stop and other workers has the bits of an undisturbed one") {
  const Workspace workspace;
  workspace.write("s.csv", waves(60));
  workspace.write("r.yaml", kSeriesRecipe);
  const auto train = [&](const std::string& name, const std::vector<std::string>& words) {
    std::vector<std::string> all = {"r.yaml", "run.output_dir=" + name};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome ends = run_trainer(all, workspace.path());
    INFO(ends.errors);
    REQUIRE(ends.code == 0);
  };
  train("whole", {"data.workers=0"});
  train("parts", {"run.stop_after=11ba", "data.workers=2"});
  train("parts", {"data.workers=1"});
  CHECK(workspace.read("parts/model.safetensors") == workspace.read("whole/model.safetensors"));
}

TEST_CASE("series: networks of attention read them, and planning and statistics say their windows") {
  const Workspace workspace;
  workspace.write("s.csv", waves(60));
  workspace.write("r.yaml", kSeriesRecipe);
  const std::string layers = "model.layers=[{linear: 24}, {attention: {heads: 2}}, mean_tokens, {linear: 1}]";
  CHECK(run_trainer({"plan", "--config", "r.yaml", layers}, workspace.path()).code == 0);
  CHECK(run_trainer({"r.yaml", "run.output_dir=run", layers}, workspace.path()).code == 0);
  const Outcome made_up =
      run_trainer({"r.yaml", "data={format: synthetic}", "loss.name=cross_entropy",
                   "validation.metrics=[top1]", "model.num_classes=3", "run.output_dir=made_up"},
                  workspace.path());
  INFO(made_up.errors);
  CHECK(made_up.code == 0);
  const Outcome exported = run_trainer({"export", "run", "--out", "run.onnx"}, workspace.path());
  INFO(exported.errors);
  CHECK(exported.code == 0);
  const Outcome stats = run_trainer({"data", "stats", "--config", "r.yaml", "--json"}, workspace.path());
  const json report = json::parse(stats.output);
  const Outcome init = run_trainer({"init", "s.csv", "--target", "power"}, workspace.path());
  CHECK_THAT(init.output,
             ContainsSubstring("\n  when has dates: data.table.window makes series of the rows"));
  CHECK(report["train"]["rows"] == 45 + 42);
  CHECK(report["train"]["windows"]["step"] == "6 h");
  CHECK(report["val"]["columns"][1]["use"] == "time");
  CHECK(report["val"]["columns"][1]["last"] == "2013-01-15T18:00:00");
}

TEST_CASE("series: what does not fit is one error at its key") {
  const Workspace workspace;
  workspace.write("s.csv", waves(60));
  workspace.write("r.yaml", kSeriesRecipe);
  const auto refused = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"plan", "--config", "r.yaml"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome ends = run_trainer(all, workspace.path());
    CHECK(ends.code == 78);
    CHECK_THAT(ends.errors, ContainsSubstring("1 error") || !ContainsSubstring("errors"));
    return ends.errors;
  };
  CHECK_THAT(refused({"model.input=[5, 2]"}),
             ContainsSubstring("model.input[0]: expected 6, data.table.window.length"));
  CHECK_THAT(refused({"model.input=[6, 1]"}),
             ContainsSubstring("model.input[1]: expected 2, the columns of numbers in data.train"));
  CHECK_THAT(refused({"model.input=[12]"}), ContainsSubstring("expected [rows, columns]"));
  CHECK_THAT(refused({"model.input_kind=features", "model.input=[2]"}),
             ContainsSubstring("data.table.window: makes series of rows; set model.input_kind: series"));
  CHECK_THAT(refused({"data.table={target: power}"}), ContainsSubstring("series needs data.table.window"));
  CHECK_THAT(refused({"data.table={target: power, window: {time: when}}"}),
             ContainsSubstring("missing key 'length'"));
  CHECK_THAT(refused({"data.table={target: power, window: {length: 6}}"}),
             ContainsSubstring("missing key 'time'"));
  CHECK_THAT(refused({"data.table.window.time=wen"}),
             ContainsSubstring("data.table.window.time: there is no column 'wen'") &&
                 ContainsSubstring("did you mean 'when'?"));
  CHECK_THAT(refused({"data.val_fraction=0", "data.fold={of: 3}"}),
             ContainsSubstring("does not divide series"));
  CHECK_THAT(refused({"data.split_by=site"}), ContainsSubstring("does not divide series"));
  CHECK_THAT(refused({"data.table.window.stride=0"}), ContainsSubstring("data.table.window.stride"));
  CHECK_THAT(refused({"data.table={target: power, missing: previous}", "model.input_kind=features",
                      "model.input=[2]"}),
             ContainsSubstring("data.table.missing: previous is for series"));
}

}  // namespace
}  // namespace trainer
