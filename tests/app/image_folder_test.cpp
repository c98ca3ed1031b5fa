// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

// PNGs of a single grey pixel.
constexpr unsigned char kDark[] = {137, 80,  78,  71, 13, 10, 26, 10,  0,   0,  0,  13, 73,  72,  68,  82, 0,
                                   0,   0,   1,   0,  0,  0,  1,  8,   0,   0,  0,  0,  58,  126, 155, 85, 0,
                                   0,   0,   10,  73, 68, 65, 84, 120, 156, 99, 16, 1,  0,   0,   22,  0,  21,
                                   110, 110, 120, 46, 0,  0,  0,  0,   73,  69, 78, 68, 174, 66,  96,  130};
constexpr unsigned char kBright[] = {
    137, 80, 78,  71, 13,  10, 26,  10,  0,   0,  0, 13, 73, 72, 68, 82, 0,  0,   0,   1,   0,  0,   0,
    1,   8,  0,   0,  0,   0,  58,  126, 155, 85, 0, 0,  0,  10, 73, 68, 65, 84,  120, 156, 99, 120, 6,
    0,   0,  232, 0,  231, 39, 219, 135, 254, 0,  0, 0,  0,  73, 69, 78, 68, 174, 66,  96,  130};

constexpr const char* kRecipe = R"(version: 1
run: {name: pictures, seed: 1, output_dir: run}
model: {input: [3, 4, 4], layers: [flatten, linear: 2]}
data:
  format: image_folder
  train: train
  val: val
  augment: [random_resized_crop: 4, horizontal_flip]
  eval_transform: [resize: 6, center_crop: 4]
training: {max_duration: 4ep, global_batch_size: 10}
optimizer: {name: sgd, lr: 0.5}
)";

/// `count` pictures of both classes in this folder.
void fill(const Workspace& workspace, const std::string& folder, int count) {
  for (const char* name : {"bright", "dark"}) {
    fs::create_directories(workspace.path() / folder / name);
    const bool is_dark = name == std::string("dark");
    const auto* bytes = reinterpret_cast<const char*>(is_dark ? kDark : kBright);
    for (int i = 0; i < count; ++i) {
      workspace.write(folder + "/" + name + "/" + std::to_string(100 + i) + ".png",
                      std::string(bytes, sizeof kDark));
    }
  }
}

}  // namespace

TEST_CASE("a folder of pictures trains; damaged ones are listed exactly, and too many of them end the run") {
  const Workspace workspace;
  workspace.write("r.yaml", kRecipe);
  fill(workspace, "train", 50);
  fill(workspace, "val", 10);
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
  workspace.write("val/dark/102.png", std::string(reinterpret_cast<const char*>(kDark), 40));
  const Outcome ends = train({});
  CHECK(ends.code == 65);
  CHECK_THAT(ends.errors,
             Contains("of 100 samples cannot be read, more than data.error_budget, 0.1 %; they are "
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

TEST_CASE("a share of the training pictures validates, and missing folders are named") {
  const Workspace workspace;
  workspace.write("r.yaml", kRecipe);
  fill(workspace, "train", 50);
  const Outcome missing = run_trainer({"--config", "r.yaml"}, workspace.path());
  CHECK(missing.code == 78);
  CHECK_THAT(missing.errors, Contains("r.yaml:7:3: error: data.val: there is no file val"));
  const Outcome good =
      run_trainer({"--config", "r.yaml", "data.val=\"\"", "data.val_fraction=0.2"}, workspace.path());
  INFO(good.errors);
  REQUIRE(good.code == 0);
  const auto summary = nlohmann::json::parse(workspace.read("run/summary.json"));
  CHECK(summary["validation"]["last"]["top1"].get<double>() == 1.0);
  CHECK(summary["steps"] == 4 * 80 / 10);
}

}  // namespace trainer
