// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include "tests/catch.h"

#include "tests/app/command.h"
#include "tests/processor.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

/// A small residual network with batch normalisation.
constexpr const char* kResidual = R"(version: 1
run: {name: residual, seed: 5, output_dir: run}
model:
  input: [3, 10, 10]
  layers:
    - conv2d: {out_channels: 16, kernel_size: 3, padding: 1, bias: false, name: conv1}
    - batch_norm: {name: bn1}
    - relu: {name: stem}
    - conv2d: {out_channels: 16, kernel_size: 3, padding: 1, name: conv2}
    - batch_norm: {name: bn2}
    - add: {inputs: [bn2, stem]}
    - relu
    - global_avg_pool2d
    - flatten
    - linear: {out_features: 7, name: head}
data: {format: synthetic, synthetic: {train_samples: 320, val_samples: 101}}
training: {max_duration: 12ba, global_batch_size: 32, micro_batch_size: 16, ema: {decay: 0.8}}
optimizer: {name: adamw, lr: 0.01}
validation: {metrics: [top1, top5], interval: 5ba}
)";

Outcome run(const Workspace& workspace, const std::string& command, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {command, "--config", "r.yaml"});
  return run_trainer(more, workspace.path());
}

Outcome run_well(const Workspace& workspace, const std::string& command, std::vector<std::string> more = {}) {
  Outcome outcome = run(workspace, command, std::move(more));
  INFO(command << ": " << outcome.errors);
  REQUIRE(outcome.code == 0);
  return outcome;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// The last output of training about its validation.
Json last_validation(const Workspace& workspace, const std::string& directory) {
  Json last;
  for (const Json& line : json_lines(workspace.read(directory + "/metrics.jsonl"))) {
    if (line["split"] == "validation") last = line;
  }
  return last;
}

void check_same(const Json& evaluated, const Json& reported, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    INFO(name);
    REQUIRE(evaluated.contains(name));
    CHECK(evaluated[name].get<double>() == reported[name].get<double>());
  }
}

const std::vector<std::string> kRaw = {"loss", "top1", "top5"};
const std::vector<std::string> kAll = {"loss", "top1", "top5", "ema_loss", "ema_top1", "ema_top5"};

}  // namespace

TEST_CASE("eval gives the very numbers that training reported for the same weights") {
  for (const std::string precision : {"fp32", "amp_bf16"}) {
    if (precision == "amp_bf16" && !has_avx512()) continue;
    const Workspace workspace;
    workspace.write("r.yaml", kResidual);
    const std::vector<std::string> keys = {"training.precision=" + precision, "device.emulate_bf16=true"};
    auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), keys.begin(), keys.end());
      return more;
    };
    run_well(workspace, "train", keys);
    const Json reported = last_validation(workspace, "run");
    Json found = Json::parse(run_well(workspace, "eval", with({"--json"})).output);
    check_same(found, reported, kAll);
    CHECK(found["samples"] == 101);
    CHECK(found["loss"] != found["ema_loss"]);
    for (const char* path : {"run", "./run/"}) {
      const std::string resume = std::string("run.resume=") + path;
      check_same(Json::parse(run_well(workspace, "eval", with({"--json", resume})).output), reported, kAll);
    }
    found =
        Json::parse(run_well(workspace, "eval", with({"--json", "run.resume=run/model.safetensors"})).output);
    check_same(found, reported, kRaw);
    CHECK_FALSE(found.contains("ema_loss"));
    found = Json::parse(
        run_well(workspace, "eval", with({"--json", "run.resume=run/model_ema.safetensors"})).output);
    CHECK(found["loss"] == reported["ema_loss"]);
  }
}

TEST_CASE("a run's directory is enough for eval and predict, and its best weights come first") {
  const Workspace workspace;
  workspace.write("r.yaml", kResidual);
  const Outcome trained = run_well(workspace, "train", {"run.output_dir=a=1", "run.resume=auto"});
  CHECK_THAT(trained.errors, ContainsSubstring("  trainer report ./a=1\n") &&
                                 ContainsSubstring("  trainer eval ./a=1\n") &&
                                 ContainsSubstring("  trainer predict ./a=1 IMAGES\n"));
  fs::rename(workspace.path() / "a=1", workspace.path() / "moved");
  fs::remove(workspace.path() / "r.yaml");
  const auto use = [&](std::vector<std::string> words) {
    const Outcome outcome = run_trainer(words, workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome.output;
  };
  const auto weights = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "moved", "--json"});
    return Json::parse(use(more))["weights"].get<std::string>();
  };
  CHECK(weights({}) == "moved/model_best.safetensors");
  const Json best = Json::parse(use({"eval", "--json", "moved"}));
  const Json summary = Json::parse(workspace.read("moved/summary.json"));
  CHECK(best["top1"] == summary["best"]["value"]);
  CHECK(json_lines(use({"predict", "moved"})).size() == 101);
  CHECK(weights({"--weights", "moved/model_ema.safetensors"}) == "moved/model_ema.safetensors");
  CHECK(weights({"--weights", "moved"}) == "moved/model.safetensors");
  CHECK(weights({"run.resume=moved"}) == "moved/model.safetensors");
  fs::remove(workspace.path() / "moved/model_best.safetensors");
  CHECK(weights({}) == "moved/model.safetensors");
  fs::remove(workspace.path() / "moved/model.safetensors");
  CHECK(weights({}) == "moved/checkpoints/step-00000012/model.safetensors");
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"eval"}, "eval needs a run's directory, or a recipe with --config"},
      {{"predict", "run.seed=1"}, "predict needs a run's directory"},
      {{"eval", "gone"}, "gone: expected a run's directory, found nothing"},
      {{"predict", "moved/metrics.jsonl"}, "expected a run's directory, found a file"},
      {{"predict", "moved/checkpoints"}, "found no recipe.yaml in it"},
      {{"eval", "moved", "--weights", "moved", "run.resume=moved"}, "leave one of them out"},
      {{"eval", "moved", "--as-trained", "--as-written"}, "excludes"}};
  for (const auto& [words, message] : wrong) {
    const Outcome outcome = run_trainer(words, workspace.path());
    CHECK(outcome.code == 64);
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  }
}

TEST_CASE("a run with a metric of the confusion matrix writes confusion.json, and eval finds the same") {
  const Workspace workspace;
  workspace.write("r.yaml", kResidual);
  const std::string metrics = "validation.metrics=[top1, macro_f1, balanced_accuracy, auroc, ece]";
  run_well(workspace, "train", {metrics});
  const Json written = Json::parse(workspace.read("run/confusion.json"));
  const Json reported = last_validation(workspace, "run");
  const Json found = Json::parse(run_well(workspace, "eval", {"--json", metrics}).output);
  CHECK(written["step"] == 12);
  for (const std::string prefix : {"", "ema_"}) {
    INFO(prefix);
    const Json matrix = written[prefix + "confusion"];
    CHECK(found[prefix + "confusion"] == matrix);
    double correct = 0, f1 = 0;
    int classes = 0;
    for (size_t c = 0; c < 7; ++c) {
      correct += matrix["matrix"][c][c].get<double>();
      f1 += matrix["f1"][c].get<double>();
      int occurs = 0;
      for (size_t other = 0; other < 7; ++other)
        occurs += matrix["matrix"][c][other].get<int>() + matrix["matrix"][other][c].get<int>();
      classes += occurs > 0 ? 1 : 0;
    }
    CHECK(correct / 101 == Approx(reported[prefix + "top1"].get<double>()).epsilon(1e-6));
    CHECK(f1 / classes == Approx(reported[prefix + "macro_f1"].get<double>()).epsilon(1e-12));
    CHECK(reported.contains(prefix + "balanced_accuracy"));
    CHECK(reported[prefix + "auroc"].get<double>() > 0.5);
    for (const std::string metric : {"auroc", "ece"})
      CHECK(found[prefix + metric] == reported[prefix + metric]);
  }
  const std::string table = run_well(workspace, "eval").output;
  CHECK_THAT(table, ContainsSubstring("\nclass         precision    recall        f1   support\n0 ") &&
                        ContainsSubstring("\naveraged weights:\n") && ContainsSubstring("\nweighted mean "));
}

TEST_CASE("a checkpoint is evaluated to the bits of its step, its run by the newest that is whole") {
  const Workspace workspace;
  workspace.write("r.yaml", kResidual);
  run_well(workspace, "train",
           {"checkpoint.interval=5ba", "checkpoint.keep_latest=9", "model.freeze=[\"conv1.*\", \"bn1.*\"]"});
  std::map<int, Json> reported;
  for (const Json& line : json_lines(workspace.read("run/metrics.jsonl"))) {
    if (line["split"] == "validation") reported[line["step"]] = line;
  }
  const auto evaluate = [&](const std::string& path) {
    return run_well(workspace, "eval", {"--json", "run.resume=" + path});
  };
  for (const int step : {5, 10}) {
    INFO(step);
    const std::string checkpoint =
        "run/checkpoints/step-000000" + std::string(step < 10 ? "0" : "") + std::to_string(step);
    check_same(Json::parse(evaluate(checkpoint).output), reported.at(step), kAll);
  }
  fs::remove(workspace.path() / "run/model.safetensors");
  for (const auto& entry : fs::directory_iterator(workspace.path() / "run/checkpoints")) {
    if (entry.path().filename() > "step-00000010") fs::remove_all(entry.path());
  }
  check_same(Json::parse(evaluate("run").output), reported.at(10), kAll);
  workspace.write("run/checkpoints/step-00000010/model.safetensors", "damaged");
  const Outcome earlier = evaluate("run");
  check_same(Json::parse(earlier.output), reported.at(5), kAll);
  CHECK_THAT(earlier.errors,
             ContainsSubstring("warning: skipped: ") && ContainsSubstring("step-00000010/model.safetensors"));
  CHECK(run(workspace, "eval", {"run.resume=run/checkpoints/step-00000010"}).code == 65);

  // A checkpoint's weights can be resumed from, and used to initialise.
  const Outcome begun =
      run(workspace, "train",
          {"run.output_dir=new", "optimizer.lr=0.0", "model.initial_weights=run", "training.ema={}"});
  CHECK(begun.code == 0);
  CHECK_THAT(begun.errors, ContainsSubstring("skipped: "));
  CHECK(fs::exists(workspace.path() / "new/model.safetensors"));
}

TEST_CASE("eval says what it found in a line, leaves the run alone, and says what is missing") {
  const Workspace workspace;
  workspace.write("r.yaml", kResidual);
  const Outcome none = run(workspace, "eval");
  CHECK(none.code == 65);
  CHECK_THAT(none.errors, ContainsSubstring("run: this recipe has not been trained here") &&
                              ContainsSubstring("--weights PATH"));
  CHECK_FALSE(fs::exists(workspace.path() / "run"));
  run_well(workspace, "train");
  const auto before = fs::last_write_time(workspace.path() / "run");
  const Outcome line = run_well(workspace, "eval");
  CHECK_THAT(line.output, ContainsSubstring("validation loss ") && ContainsSubstring(" ema_top5 ") &&
                              ContainsSubstring("(101 samples, weights of run/model.safetensors)"));
  CHECK(line.errors.empty());
  CHECK(fs::last_write_time(workspace.path() / "run") == before);

  const Outcome never = run(workspace, "eval", {"run.resume=never"});
  CHECK(never.code == 78);
  CHECK_THAT(never.errors, ContainsSubstring("error: run.resume: never loads no weights"));
  const Outcome other = run(workspace, "eval", {"run.resume=run", "model.layers[9].linear.out_features=8"});
  CHECK(other.code == 65);
  CHECK_THAT(other.errors, ContainsSubstring("'head.bias' has shape 7, the network needs 8") &&
                               !ContainsSubstring("model.replace"));
  const Outcome nowhere = run(workspace, "eval", {"run.resume=else/where"});
  CHECK(nowhere.code == 65);
}

TEST_CASE("predicted classes and probabilities are those of the evaluation") {
  const Workspace workspace;
  workspace.write("r.yaml", kResidual);
  run_well(workspace, "train");
  const Json evaluated = Json::parse(run_well(workspace, "eval", {"--json"}).output);
  const std::vector<Json> lines = json_lines(run_well(workspace, "predict", {"--all"}).output);
  REQUIRE(lines.size() == 101);  // the last batch is not full
  double loss = 0, right = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i]["sample"] == i);
    const auto probabilities = lines[i]["probabilities"].get<std::vector<double>>();
    REQUIRE(probabilities.size() == 7);
    double sum = 0;
    for (double p : probabilities) sum += p;
    CHECK(sum == Approx(1).epsilon(1e-12));
    const auto label = lines[i]["label"].get<size_t>();
    loss -= std::log(probabilities[label]) / 101;
    right += lines[i]["class"] == label ? 1.0 / 101 : 0;
    for (double p : probabilities) CHECK(p <= probabilities[lines[i]["class"].get<size_t>()]);
  }
  CHECK(right == Approx(evaluated["top1"].get<double>()).epsilon(1e-9));
  CHECK(loss == Approx(evaluated["loss"].get<double>()).epsilon(1e-6));

  const std::vector<Json> best = json_lines(run_well(workspace, "predict", {"--top", "3"}).output);
  REQUIRE(best.size() == 101);
  for (size_t i = 0; i < best.size(); ++i) {
    CHECK(best[i]["class"] == lines[i]["class"]);
    REQUIRE(best[i]["probabilities"].size() == 3);
    CHECK(best[i]["probabilities"][0][0] == best[i]["class"]);
    double before = 1;
    for (const Json& pair : best[i]["probabilities"]) {
      CHECK(pair[1] == lines[i]["probabilities"][pair[0].get<size_t>()]);
      CHECK(pair[1].get<double>() <= before);
      before = pair[1];
    }
  }
  const std::vector<Json> of_training =
      json_lines(run_well(workspace, "predict", {"--split", "train"}).output);
  CHECK(of_training.size() == 320);
  // A page has a limited number of images, and says what is left out.
  run_well(workspace, "predict", {"--split", "train", "--gallery", "page.html"});
  const std::string page = workspace.read("page.html");
  size_t images = 0;
  for (size_t at = 0; (at = page.find("<figure ", at)) != std::string::npos; ++at) ++images;
  CHECK(images == 300);
  CHECK_THAT(page, ContainsSubstring("300 of 320 samples are drawn: ") && ContainsSubstring("sample "));
}

TEST_CASE("predict writes where it is told, whole or not at all, and ends quietly when nobody reads") {
  const Workspace workspace;
  workspace.write("r.yaml", kResidual);
  run_well(workspace, "train");
  const Outcome printed = run_well(workspace, "predict");
  const Outcome written = run_well(workspace, "predict", {"--output", "out.jsonl"});
  CHECK(written.output.empty());
  CHECK(workspace.read("out.jsonl") == printed.output);
  CHECK(run(workspace, "predict", {"-o", "no/such/folder"}).code == 74);
  CHECK(run_shell("\"$TRAINER\" predict --config r.yaml >/dev/full", workspace.path()).code == 74);
  for (const char* trap : {"", "trap '' PIPE; "}) {
    const Outcome head =
        run_shell(std::string(trap) + "\"$TRAINER\" predict --config r.yaml --split train | head -n 1",
                  workspace.path());
    CHECK(json_lines(head.output).size() == 1);
    CHECK(head.errors.empty());
  }
}

TEST_CASE("predict prints the shares of classes of pixels, and refuses what has none") {
  const Workspace workspace;
  workspace.write("r.yaml", R"(version: 1
run: {output_dir: run}
model: {input: [2, 8, 8], layers: [conv2d: {out_channels: 4, kernel_size: 1}]}
data: {format: synthetic, synthetic: {train_samples: 64, val_samples: 10}}
training: {max_duration: 2ba, global_batch_size: 32}
)");
  run_well(workspace, "train");
  const std::vector<Json> all = json_lines(run_well(workspace, "predict", {"--all"}).output);
  const std::vector<Json> first = json_lines(run_well(workspace, "predict", {"--tta", "flip"}).output);
  REQUIRE(all.size() == 10);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto fractions = all[i]["fractions"].get<std::vector<double>>();
    REQUIRE(fractions.size() == 4);
    CHECK(fractions[0] + fractions[1] + fractions[2] + fractions[3] == Approx(1));
    CHECK(std::is_sorted(fractions.rbegin(), fractions.rend()));
    CHECK_FALSE(all[i].contains("label"));
    // A kernel of one pixel gives the mirrored image the mirrored classes.
    for (size_t k = 0; k < first[i]["classes"].size(); ++k) {
      CHECK(first[i]["classes"][k] == all[i]["classes"][k]);
      CHECK(first[i]["fractions"][k] == fractions[k]);
    }
  }
  CHECK(run(workspace, "predict", {"--errors-only"}).code == 64);
  CHECK(lines_of(run_well(workspace, "predict", {"--format", "csv", "--all"}).output)[0] ==
        "sample,classes,fractions,error");
  workspace.write("r.yaml", R"(version: 1
run: {output_dir: run}
model: {input: [2, 8, 8], layers: [flatten, linear: 4]}
data: {format: synthetic}
)");
  const Outcome channels = run(workspace, "predict", {"x.png"});
  CHECK(channels.code == 78);
  CHECK_THAT(channels.errors, ContainsSubstring("images have 1 or 3 channels, the network expects 2"));
  CHECK(run(workspace, "predict", {"x.png", "--split", "val"}).code == 64);
  CHECK(run(workspace, "predict", {"--top", "0"}).code == 64);
  CHECK(run(workspace, "predict", {"--top", "2", "--all"}).code == 64);
}

}  // namespace trainer
