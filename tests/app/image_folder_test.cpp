// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include "tests/catch.h"

#include "tests/app/images.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

}  // namespace

TEST_CASE("a folder of images trains; damaged ones are listed exactly, and too many of them end the run") {
  const Workspace workspace;
  workspace.write("r.yaml", kImageRecipe);
  fill_with_images(workspace, "train", 50);
  fill_with_images(workspace, "val", 10);
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--config", "r.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_trainer(arguments, workspace.path());
  };
  const Outcome good = train({"run.output_dir=good"});
  INFO(good.errors);
  REQUIRE(good.code == 0);
  CHECK(!fs::exists(workspace.path() / "good/bad_samples.txt"));
  const auto summary = nlohmann::json::parse(workspace.read("good/summary.json"));
  CHECK(summary["validation"]["last"]["top1"].get<double>() == 1.0);
  CHECK(summary["data"]["unreadable_samples"] == 0);

  workspace.write("train/bright/107.png", "");
  workspace.write("train/dark/103.png", "once upon a time");
  workspace.write("val/dark/102.png", image(true).substr(0, 40));
  const Outcome ends = train({});
  CHECK(ends.code == 65);
  CHECK_THAT(ends.errors,
             ContainsSubstring("of 100 samples cannot be read, more than data.error_budget, 0.1 %; they are "
                               "listed in run/bad_samples.txt"));
  CHECK(workspace.read("run/bad_samples.txt").starts_with("train/"));

  const std::vector<std::string> names = {"train/bright/107.png", "train/dark/103.png", "val/dark/102.png"};
  std::string weights;
  for (const char* workers : {"0", "3"}) {
    const std::string run = std::string("run") + workers;
    const Outcome runs =
        train({"data.error_budget=10", "run.output_dir=" + run, std::string("data.workers=") + workers});
    INFO(runs.errors);
    REQUIRE(runs.code == 0);
    std::istringstream list(workspace.read(run + "/bad_samples.txt"));
    std::vector<std::string> listed;
    for (std::string line; std::getline(list, line);) listed.push_back(line.substr(0, line.find(':')));
    CHECK(listed == names);
    const std::string log = workspace.read(run + "/log.txt");
    for (const std::string& name : names) {
      CHECK(log.find(name) != std::string::npos);
      CHECK(log.find(name) == log.rfind(name));
    }
    CHECK(nlohmann::json::parse(workspace.read(run + "/summary.json"))["data"]["unreadable_samples"] == 3);
    const std::string made = workspace.read(run + "/model.safetensors");
    CHECK((weights.empty() || weights == made));
    weights = made;
  }
}

TEST_CASE("images are told apart with their classes' names, whatever order, however many, some unreadable") {
  const Workspace workspace;
  workspace.write("r.yaml", kImageRecipe);
  fill_with_images(workspace, "train", 50);
  fill_with_images(workspace, "val", 10);
  REQUIRE(run_trainer({"--config", "r.yaml"}, workspace.path()).code == 0);
  const auto predict = [&](const std::vector<std::string>& more, int code) {
    std::vector<std::string> arguments = {"predict", "--config", "r.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_trainer(arguments, workspace.path());
    INFO(outcome.errors);
    CHECK(outcome.code == code);
    std::vector<nlohmann::json> lines;
    std::istringstream stream(outcome.output);
    for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  };
  const auto check_named = [](const nlohmann::json& line) {
    const std::string file = line["file"], name = line["name"];
    CHECK(file.find("/" + name + "/") != std::string::npos);
    CHECK(line["class"] == (name == "dark" ? 1 : 0));
  };
  for (const auto& line : predict({}, 0)) {
    check_named(line);
    CHECK(line["label"] == line["class"]);
  }
  CHECK(predict({"train"}, 0).size() == 100);
  fs::rename(workspace.path() / "train", workspace.path() / "elsewhere");
  const Outcome evaluated = run_trainer({"eval", "--config", "r.yaml", "--json"}, workspace.path());
  CHECK(evaluated.code == 0);  // without the training images
  CHECK(nlohmann::json::parse(evaluated.output)["top1"] == 1.0);
  fs::rename(workspace.path() / "elsewhere", workspace.path() / "train");
  workspace.write("val/dark/103.png", "once upon a time");
  for (const char* workers : {"data.workers=0", "data.workers=3"}) {
    const auto lines = predict({"val/dark/109.png", workers, "gone.png", "val", "--top", "1"}, 65);
    REQUIRE(lines.size() == 22);
    CHECK(lines[0]["file"] == "val/dark/109.png");
    CHECK_THAT(lines[1]["error"], ContainsSubstring("No such file"));
    for (size_t i = 0; i < lines.size(); ++i) {
      CHECK(lines[i].contains("error") == (i == 1 || lines[i]["file"] == "val/dark/103.png"));
      if (!lines[i].contains("error")) check_named(lines[i]);
    }
    CHECK(lines[2]["file"] == "val/bright/100.png");
    CHECK(lines[21]["file"] == "val/dark/109.png");
    CHECK(lines[21] == lines[0]);
  }
  // The weights keep the names: they need no images of training.
  fs::rename(workspace.path() / "train", workspace.path() / "elsewhere");
  fs::rename(workspace.path() / "val", workspace.path() / "images");
  const auto named = predict({"images/bright"}, 0);
  CHECK(named.size() == 10);
  for (const auto& line : named) {
    CHECK(line["class"] == 0);
    CHECK(line["name"] == "bright");
  }
}

TEST_CASE(
    "labels beside the recipe: found from anywhere, in the run's recipe too; patients stay on one side") {
  const Workspace workspace;
  std::string text = kImageRecipe, rows = "image;class;patient\n";
  text.replace(text.find("  val: val\n"), 11,
               "  val_fraction: 0.25\n  labels: rows.csv\n  split_by: patient\n");
  fill_with_images(workspace, "r/train", 24);
  for (const std::string name : {"bright", "dark"})
    for (int i = 0; i < 24; ++i)
      rows += name + "/" + std::to_string(100 + i) + ".png;" + name + ";" + std::to_string(i / 3) + "\n";
  workspace.write("r/r.yaml", text);
  workspace.write("r/rows.csv", rows + "gone/1.png;dark;9\n");
  const auto run = [&](const std::string& words) {
    Outcome outcome = run_shell("\"$TRAINER\" " + words, workspace.path());
    INFO(words << ": " << outcome.errors);
    CHECK(outcome.code == 0);
    return outcome.output + outcome.errors;
  };
  CHECK_THAT(run("train --config r/r.yaml"),
             ContainsSubstring("data.train: 1 skipped: 1 rows of images elsewhere"));
  CHECK_THAT(run("eval --config run/recipe.yaml"), ContainsSubstring("(12 samples"));
  CHECK_THAT(run("data stats --config r/r.yaml"), ContainsSubstring("val: 12 samples, 2 classes"));
  std::set<std::string> patients;
  for (const std::string& line : lines_of(run("predict --config r/r.yaml"))) {
    const std::string file = nlohmann::json::parse(line)["file"];
    patients.insert(std::to_string((std::stoi(file.substr(file.rfind('/') + 1)) - 100) / 3));
  }
  CHECK(patients.size() == 2);
  const Outcome absent =
      run_shell("\"$TRAINER\" --config r/r.yaml data.split_by=site run.output_dir=other", workspace.path());
  CHECK(absent.code == 65);
  CHECK_THAT(absent.errors,
             ContainsSubstring("rows.csv:1: there is no column 'site' (data.split_by); the columns "
                               "are 'image', 'class', 'patient'"));
  fs::remove(workspace.path() / "r/rows.csv");
  const Outcome gone = run_shell("\"$TRAINER\" --config r/r.yaml run.output_dir=other", workspace.path());
  CHECK(gone.code == 65);
  CHECK_THAT(gone.errors,
             ContainsSubstring("data.labels: there is no file rows.csv in r/train, and no file rows.csv, "
                               "relative to the recipe's folder "));
}

TEST_CASE("a stratified share: classes without any are named, and runs begun before keep their split") {
  const Workspace workspace;
  std::string text = kImageRecipe;
  text.replace(text.find("  val: val\n"), 11, "  val_fraction: 0.2\n");
  text.replace(text.find(", output_dir: run"), 17, "");
  workspace.write("r.yaml", text);
  fill_with_images(workspace, "train", 20);
  for (int i = 102; i < 120; ++i) fs::remove(workspace.path() / ("train/dark/" + std::to_string(i) + ".png"));
  const std::string line = "1 of 2 classes has no sample for validation: dark";
  const auto run = [&](const std::string& words, int code) {
    Outcome outcome = run_shell("\"$TRAINER\" " + words, workspace.path());
    INFO(words << ": " << outcome.errors);
    CHECK(outcome.code == code);
    return outcome.output + outcome.errors;
  };
  CHECK_THAT(run("data stats --config r.yaml", 0),
             ContainsSubstring("val: 4 samples") && ContainsSubstring(line));
  CHECK_THAT(run("--config r.yaml data.stratify=false training.max_duration=1ep", 0),
             ContainsSubstring("done"));
  // The name of an earlier run's directory, and its keys, are those of a run with stratify=false.
  const std::string other = "takes its share of each class now, but the run in runs/";
  CHECK_THAT(run("--config r.yaml training.max_duration=1ep", 78),
             ContainsSubstring(other) && ContainsSubstring("or data.stratify=true to begin another run"));
  CHECK_THAT(run("eval --config r.yaml training.max_duration=1ep", 78), ContainsSubstring(other));
  CHECK_THAT(run("eval --config r.yaml run.resume=$(ls runs/*/model.safetensors)", 78),
             ContainsSubstring("set data.stratify=false to evaluate it with its own"));
  CHECK_THAT(run("--config r.yaml data.stratify=false training.max_duration=1ep", 0),
             ContainsSubstring("this run is finished"));
  const std::string begun = run("--config r.yaml data.stratify=true training.max_duration=1ep", 0);
  CHECK_THAT(begun, ContainsSubstring("warning: " + line));
  CHECK_THAT(run("--config r.yaml training.max_duration=1ep", 0), ContainsSubstring("this run is finished"));
}

TEST_CASE(
    "balanced classes: weights of the loss, kept with the network, and weighted draws that resume exactly") {
  const Workspace workspace;
  workspace.write("r.yaml", kImageRecipe);
  fill_with_images(workspace, "train", 20);
  fill_with_images(workspace, "val", 5);
  for (int i = 105; i < 120; ++i) fs::remove(workspace.path() / ("train/dark/" + std::to_string(i) + ".png"));
  const auto run = [&](const std::string& words, int code = 0) {
    Outcome outcome = run_shell("\"$TRAINER\" " + words, workspace.path());
    INFO(words << ": " << outcome.errors);
    CHECK(outcome.code == code);
    return outcome.output + outcome.errors;
  };
  const auto losses = [&](const std::string& weights, const std::string& directory) {
    run("--config r.yaml 'loss={name: cross_entropy, class_weights: " + weights +
        "}' logging.interval=1ba run.output_dir=" + directory);
    return losses_in(workspace.read(directory + "/metrics.jsonl"), "train");
  };
  const std::vector<double> balanced = losses("balanced", "balanced");
  CHECK(balanced == losses("[0.625, 2.5]", "listed"));  // 25 / (2 * 20) and 25 / (2 * 5)
  CHECK(balanced != losses("[1, 1]", "equal"));
  // The weights are kept with the network: training images are not needed again.
  const std::string evaluated =
      "eval --json --config r.yaml 'loss={name: cross_entropy, class_weights: balanced}' "
      "run.output_dir=balanced";
  const std::string before = run(evaluated);
  fs::rename(workspace.path() / "train", workspace.path() / "away");
  CHECK(run(evaluated) == before);
  fs::rename(workspace.path() / "away", workspace.path() / "train");

  const std::string draws = "--config r.yaml data.sample_weights=balanced data.workers=2 run.output_dir=";
  run(draws + "whole training.max_duration=6ep");
  run(draws + "parts training.max_duration=3ep");
  run(draws + "parts training.max_duration=6ep 'run.allow_changes=[training.max_duration]'");
  CHECK(workspace.read("whole/model.safetensors") == workspace.read("parts/model.safetensors"));
  run("--config r.yaml run.output_dir=plain training.max_duration=6ep");
  CHECK(workspace.read("whole/model.safetensors") != workspace.read("plain/model.safetensors"));
  workspace.write("w.csv", "file,weight\nbright/100.png,nan\n");
  CHECK_THAT(run("--config r.yaml data.sample_weights=w.csv run.output_dir=file", 65),
             ContainsSubstring("w.csv:2: expected a weight, a finite number of at least 0, found 'nan'"));
  CHECK_THAT(run("--config r.yaml data.sample_weights=balanced loss=mse 'validation.metrics=[]' "
                 "data.cache=device run.output_dir=x",
                 78),
             ContainsSubstring("data.sample_weights may draw one several times"));
}

TEST_CASE("a share of the training images validates, and missing folders are named") {
  const Workspace workspace;
  workspace.write("r.yaml", kImageRecipe);
  fill_with_images(workspace, "train", 50);
  const Outcome missing = run_trainer({"--config", "r.yaml"}, workspace.path());
  CHECK(missing.code == 78);
  CHECK_THAT(missing.errors, ContainsSubstring("r.yaml:7:3: error: data.val: there is no file val"));
  const Outcome good =
      run_trainer({"--config", "r.yaml", "data.val=\"\"", "data.val_fraction=0.2"}, workspace.path());
  INFO(good.errors);
  REQUIRE(good.code == 0);
  const auto summary = nlohmann::json::parse(workspace.read("run/summary.json"));
  CHECK(summary["validation"]["last"]["top1"].get<double>() == 1.0);
  CHECK(summary["steps"] == 4 * 80 / 10);
}

}  // namespace trainer
