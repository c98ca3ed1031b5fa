// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

Outcome run(const Workspace& workspace, std::vector<std::string> arguments) {
  workspace.write("small.yaml", kSmallRecipe);
  arguments.insert(arguments.end(), {"--config", "small.yaml"});
  return run_trainer(arguments, workspace.path());
}

}  // namespace

TEST_CASE("data stats counts and measures both splits, as text and as JSON") {
  const Workspace workspace;
  const Outcome text = run(workspace, {"data", "stats"});
  INFO(text.errors);
  CHECK(text.code == 0);
  CHECK_THAT(text.output, ContainsSubstring("train: 640 samples, 5 classes") &&
                              ContainsSubstring("val: 130 samples, 5 classes") &&
                              ContainsSubstring("height     12 to 12, median 12") &&
                              ContainsSubstring("normalize  {mean: [0.") &&
                              ContainsSubstring("0 unreadable"));
  const Outcome json = run(workspace, {"data", "stats", "--json", "data.workers=3"});
  CHECK(json.code == 0);
  const auto report = nlohmann::json::parse(json.output);
  int64_t samples = 0;
  for (const auto& row : report["train"]["classes"]) samples += row["samples"].get<int64_t>();
  CHECK(samples == 640);
  CHECK(report["val"]["samples"] == 130);
  CHECK(report["train"]["width"]["median"] == 12);
  // Texture and noise are averaged: each has mean 127.5 and deviation 73.9.
  CHECK(report["train"]["mean"][0].get<double>() == Approx(0.5).margin(0.05));
  CHECK(report["train"]["std"][0].get<double>() == Approx(73.9 / std::sqrt(2.0) / 255).margin(0.04));
  CHECK(report["train"]["unreadable"].empty());
  CHECK(report["classes_without_validation"] == nlohmann::json::array());
}

TEST_CASE("data stats --time measures how many samples a core makes, and nothing else") {
  const Workspace workspace;
  const Outcome outcome = run(workspace, {"data", "stats", "--time", "--json"});
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  const auto report = nlohmann::json::parse(outcome.output);
  CHECK(report.size() == 3);
  const double seconds = report["processor_seconds"].get<double>(), samples = report["samples"].get<double>();
  CHECK(samples > 0);
  CHECK(seconds > 0);
  CHECK(seconds < 4);
  CHECK(report["samples_per_second_of_a_core"].get<double>() == Approx(samples / seconds));
  const Outcome missing =
      run(workspace, {"data", "stats", "--time", "data.format=idx", "data.train=nowhere"});
  CHECK(missing.code == 78);
  CHECK_THAT(missing.errors, ContainsSubstring("data.train: there is no file nowhere"));
}

TEST_CASE("training from packed files gives the bits of training from their source") {
  const Workspace workspace;
  for (const char* split : {"train", "val"}) {
    const Outcome packed =
        run(workspace, {"data", "pack", "--split", split, "--out", std::string(split) + ".rec"});
    INFO(packed.errors);
    REQUIRE(packed.code == 0);
    CHECK_THAT(packed.output, ContainsSubstring(std::string(split) + ".rec: ") &&
                                  ContainsSubstring(std::string("data.") + split));
  }
  const std::vector<std::string> short_run = {"train", "training.max_duration=1ep", "data.mix.mixup=0.3"};
  auto from_source = short_run, from_record = short_run;
  from_source.push_back("run.output_dir=a");
  from_record.insert(from_record.end(), {"run.output_dir=b", "data.format=record", "data.train=train.rec",
                                         "data.val=val.rec", "data.workers=2"});
  CHECK(run(workspace, from_source).code == 0);
  const Outcome again = run(workspace, from_record);
  INFO(again.errors);
  CHECK(again.code == 0);
  CHECK(workspace.read("a/model.safetensors") == workspace.read("b/model.safetensors"));
  const auto value = [&](const char* run_name) {
    return nlohmann::json::parse(
        workspace.read(std::string(run_name) + "/summary.json"))["validation"]["last"];
  };
  CHECK(value("a") == value("b"));

  fs::resize_file(workspace.path() / "val.rec", fs::file_size(workspace.path() / "val.rec") - 100);
  const Outcome truncated =
      run(workspace, {"data", "stats", "data.format=record", "data.train=train.rec", "data.val=val.rec"});
  CHECK(truncated.code == 65);
  CHECK_THAT(truncated.errors,
             ContainsSubstring("val.rec: offset ") && ContainsSubstring("the file is truncated"));
}

TEST_CASE(
    "training from shards gives the bits of training from their source, in either order, also after a stop") {
  const Workspace workspace;
  for (const char* split : {"train", "val"}) {
    const Outcome packed = run(workspace, {"data", "pack", "--format", "webdataset", "--split", split,
                                           "--shard-samples", "200", "--out", "shards"});
    INFO(packed.errors);
    REQUIRE(packed.code == 0);
  }
  CHECK(fs::exists(workspace.path() / "shards/train_000003.tar"));
  CHECK(fs::exists(workspace.path() / "shards/val_000000.tar"));
  const auto train = [&](const std::string& name, std::vector<std::string> changes) {
    changes.insert(changes.begin(), {"train", "training.max_duration=1ep", "run.output_dir=" + name});
    const Outcome outcome = run(workspace, changes);
    INFO(outcome.errors);
    CHECK(outcome.code == 0);
    return workspace.read(name + "/model.safetensors");
  };
  const std::vector<std::string> of_both = {"data.augment=[resize: 12, center_crop: 12]",
                                            "data.eval_transform=[resize: 12, center_crop: 12]"};
  const std::vector<std::string> of_shards = {"data.format=webdataset",
                                              "data.train=shards/train_{000000..000003}.tar",
                                              "data.val=shards/val_*.tar",
                                              of_both[0],
                                              of_both[1],
                                              "data.workers=2"};
  std::vector<std::string> models;
  for (const std::string shuffle : {"full", "{name: blocks, block: 16, window: 3}"}) {
    std::vector<std::string> from_source = of_both, from_shards = of_shards;
    from_source.push_back("data.shuffle=" + shuffle);
    from_shards.push_back("data.shuffle=" + shuffle);
    models.push_back(train("source" + std::to_string(models.size()), from_source));
    CHECK((train("shards" + std::to_string(models.size()), from_shards) == models.back()));
    from_shards.push_back("run.stop_after=4ba");
    const std::string stopped = "stopped" + std::to_string(models.size());
    from_shards.insert(from_shards.begin(),
                       {"train", "training.max_duration=1ep", "run.output_dir=" + stopped});
    CHECK(run(workspace, from_shards).code == 0);
    from_shards.back() = "data.workers=0";
    run(workspace, from_shards);
    CHECK((workspace.read(stopped + "/model.safetensors") == models.back()));
  }
  CHECK((models[0] != models[1]));
}

TEST_CASE("data pack resizes and filters once, and a recipe that repeats it is warned of") {
  const Workspace workspace;
  for (const auto& [format, out] : {std::pair{"webdataset", "small.tar"}, {"record", "small.rec"}}) {
    const Outcome packed = run(workspace, {"data", "pack", "--format", format, "--out", out, "--resize", "8",
                                           "--filter", "median", "--pixels"});
    INFO(packed.errors);
    REQUIRE(packed.code == 0);
    const std::vector<std::string> recipe = {std::string("data.format=") + format,
                                             std::string("data.train=") + out,
                                             "data.val=null",
                                             "model.input=[1, 8, 8]",
                                             "data.eval_transform=[]",
                                             "training.max_duration=1ba"};
    auto once = recipe, twice = recipe;
    once.insert(once.begin(), {"train", "run.output_dir=once", "data.augment=[resize: 8, center_crop: 8]"});
    twice.insert(twice.begin(),
                 {"train", "run.output_dir=twice", "data.augment=[resize: 8, center_crop: 8, median]"});
    const Outcome quiet = run(workspace, once), warned = run(workspace, twice);
    INFO(quiet.errors << warned.errors);
    CHECK(quiet.code == 0);
    CHECK(warned.code == 0);
    CHECK(quiet.errors.find("when they were packed") == std::string::npos);
    CHECK_THAT(warned.errors, ContainsSubstring("data.augment repeats median: {size: 3}; remove it there"));
    fs::remove_all(workspace.path() / "once");
    fs::remove_all(workspace.path() / "twice");
  }
  const auto code = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"data", "pack", "--out", "x.rec"});
    return run(workspace, options).code;
  };
  CHECK(code({"--filter", "random_crop"}) == 64);
  CHECK(code({"--filter", "none"}) == 64);
  CHECK(code({"--pixels", "--quality", "80"}) == 64);
  CHECK(code({"--quality", "101"}) == 64);
  CHECK(code({"--shard-samples", "3"}) == 64);
  CHECK(!fs::exists(workspace.path() / "x.rec"));
}

TEST_CASE("mistakes in calling data are told apart") {
  const Workspace workspace;
  CHECK(run_trainer({"data"}, workspace.path()).code == 64);
  CHECK(run(workspace, {"data", "pack"}).code == 64);
  CHECK(run(workspace, {"data", "pack", "--out", "x", "--split", "test"}).code == 64);
  const Outcome missing = run(workspace, {"data", "stats", "data.format=record", "data.train=none.rec"});
  CHECK(missing.code == 78);
  CHECK_THAT(missing.errors, ContainsSubstring("none.rec"));
  const Outcome no_split = run(workspace, {"data", "pack", "--out", "x", "--split", "val",
                                           "data.format=record", "data.train=small.yaml"});
  CHECK(no_split.code == 64);
  CHECK_THAT(no_split.errors, ContainsSubstring("--split val: the recipe has no data.val"));
  const Outcome foreign = run(workspace, {"data", "stats", "data.format=record", "data.train=small.yaml"});
  CHECK(foreign.code == 65);
  CHECK_THAT(foreign.errors, ContainsSubstring("small.yaml: offset 0: expected the mark of a record file"));
  CHECK(run(workspace, {"data", "pack", "--out", "none/x.rec"}).code == 74);
  CHECK(!fs::exists(workspace.path() / "x"));
}

}  // namespace trainer
