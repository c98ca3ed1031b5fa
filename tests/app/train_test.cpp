// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include "tests/catch.h"

#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/app/images.h"
#include "tests/metrics/tensorboard.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Trains the small recipe with these overrides in runs/NAME and requires that it ends well.
Outcome train(const Workspace& workspace, const std::string& name, std::vector<std::string> overrides = {}) {
  workspace.write("small.yaml", kSmallRecipe);
  overrides.insert(overrides.begin(), {"--config", "small.yaml", "run.output_dir=runs/" + name});
  Outcome outcome = run_trainer(overrides, workspace.path());
  INFO(outcome.errors);
  CHECK(outcome.code == 0);
  return outcome;
}

std::vector<double> train_losses(const Workspace& workspace, const std::string& name) {
  return losses_in(workspace.read("runs/" + name + "/metrics.jsonl"), "train");
}

}  // namespace

TEST_CASE("a run learns and leaves what it promises") {
  const Workspace workspace;
  train(workspace, "a", {"training.max_duration=6ep"});
  const std::vector<double> losses = train_losses(workspace, "a");
  REQUIRE(losses.size() == 60);
  CHECK(losses.back() < 0.5 * losses.front());
  for (const char* file : {"recipe.yaml", "metrics.jsonl", "summary.json", "model.safetensors", "log.txt"}) {
    INFO(file);
    CHECK(fs::file_size(workspace.path() / "runs/a" / file) > 0);
  }
  const auto summary = nlohmann::json::parse(workspace.read("runs/a/summary.json"));
  CHECK(summary["finished"] == true);
  CHECK(summary["validation"]["last"]["top1"].get<double>() > 0.5);
  CHECK(summary["validation"]["best"]["top1"] >= summary["validation"]["last"]["top1"]);
  CHECK(summary["training"]["seconds"].get<double>() > 0);
  std::istringstream lines(workspace.read("runs/a/metrics.jsonl"));
  std::string line;
  std::getline(lines, line);
  const auto record = nlohmann::json::parse(line);
  for (const char* key : {"step", "updates", "epoch", "split", "loss", "lr", "samples_per_s", "data_wait_ms",
                          "forward_ms", "backward_ms", "update_ms", "memory_bytes"}) {
    INFO(key);
    CHECK(record.contains(key));
  }
  // The plan's operations, so often as the samples' rate says.
  const Outcome plan = run_trainer({"plan", "--config", "runs/a/recipe.yaml", "--json"}, workspace.path());
  const auto planned = nlohmann::json::parse(plan.output);
  const double steps_per_s =
      record["samples_per_s"].get<double>() / planned["global_batch_size"].get<double>();
  CHECK(record["flops_per_s"].get<double>() == Approx(steps_per_s * planned["step_flops"].get<double>()));
  // The page of keys, and that it has all of them.
  const std::string page = run_trainer({"schema", "--metrics"}, workspace.path()).output;
  std::ifstream kept(TRAINER_SOURCE_DIR "/docs/metrics-reference.md");
  INFO("run: trainer schema --metrics > docs/metrics-reference.md");
  CHECK(page == std::string((std::istreambuf_iterator<char>(kept)), {}));
  const auto is_described = [&](const std::string& key) {
    return page.find("| `" + key + "` |") != std::string::npos;
  };
  for (const std::string& each : lines_of(workspace.read("runs/a/metrics.jsonl"))) {
    const auto found = nlohmann::json::parse(each);
    double shares = found["split"] == "train" ? 0 : 1;
    for (const auto& [key, value] : found.items()) {
      INFO(key);
      if (key.starts_with("time_")) shares += value.get<double>();
      CHECK((is_described(key) || key.starts_with("top")));
    }
    CHECK(shares == Approx(1).margin(0.01));
  }
  const auto flat = summary.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    std::string key = pointer.substr(1);
    std::ranges::replace(key, '/', '.');
    INFO(key);
    CHECK((is_described(key) || key.starts_with("validation.")));
  }
  // What the time was spent on adds up to the time between start and end.
  double spent = 0;
  for (const auto& [part, seconds] : summary["time"].items()) spent += seconds.get<double>();
  CHECK(spent >= summary["training"]["seconds"].get<double>());
}

TEST_CASE("a profile times every operation of the steps asked for, and changes nothing") {
  const Workspace workspace;
  train(workspace, "plain");
  train(workspace, "profiled", {"--profile", "2"});
  CHECK(train_losses(workspace, "profiled") == train_losses(workspace, "plain"));
  const auto trace = nlohmann::json::parse(workspace.read("runs/profiled/trace.json"));
  std::map<std::string, int> found;
  double steps = 0, operations = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++found[event["name"]];
    CHECK(event["ts"].get<double>() >= 0);
    // A wait for data may have begun before its step.
    if (event["cat"] != "data") (event["cat"] == "step" ? steps : operations) += event["dur"].get<double>();
    if (event["name"] == "sgd optimizer") {
      CHECK(event["args"]["implementation"].is_string());
      CHECK(event["args"]["attributes"]["momentum"].is_number());
      CHECK(event["args"]["attributes"]["nesterov"].is_boolean());
    }
  }
  CHECK(found["step 3"] == 1);
  CHECK(found["step 4"] == 1);
  CHECK(found.count("step 2") + found.count("step 5") == 0);
  CHECK(found["wait for data"] == 2);
  CHECK(found["sgd optimizer"] == 2);
  CHECK(operations > 0);
  CHECK(operations <= steps);
  CHECK_FALSE(fs::exists(workspace.path() / "runs/plain/trace.json"));
}

TEST_CASE("averaged weights are evaluated and saved beside the raw ones") {
  const Workspace workspace;
  train(workspace, "a", {"training.ema.decay=0.9"});
  const auto summary = nlohmann::json::parse(workspace.read("runs/a/summary.json"));
  CHECK(summary["validation"]["last"]["ema_loss"] != summary["validation"]["last"]["loss"]);
  CHECK(summary["validation"]["best"].contains("ema_top1"));
  CHECK(workspace.read("runs/a/metrics.jsonl").find("\"ema_top1\":") != std::string::npos);
  CHECK(workspace.read("runs/a/model.safetensors") != workspace.read("runs/a/model_ema.safetensors"));

  // A second run that begins with the averages and does not change them evaluates them as its raw weights.
  train(workspace, "b", {"model.initial_weights=runs/a/model_ema.safetensors", "optimizer.lr=0.0"});
  const auto of_averages = nlohmann::json::parse(workspace.read("runs/b/summary.json"));
  CHECK(of_averages["validation"]["last"]["loss"] == summary["validation"]["last"]["ema_loss"]);
  CHECK_FALSE(fs::exists(workspace.path() / "runs/b/model_ema.safetensors"));
}

TEST_CASE("the resolved recipe of a run makes the same run again") {
  const Workspace workspace;
  train(workspace, "a");
  const Outcome again =
      run_trainer({"--config", "runs/a/recipe.yaml", "run.output_dir=runs/b"}, workspace.path());
  CHECK(again.code == 0);
  CHECK(workspace.read("runs/a/model.safetensors") == workspace.read("runs/b/model.safetensors"));
}

TEST_CASE("the same seed gives the same bits, another seed others") {
  const Workspace workspace;
  train(workspace, "a");
  train(workspace, "b", {"data.workers=3", "data.prefetch=2", "logging.interval=7ba"});
  train(workspace, "c", {"run.seed=4"});
  CHECK(workspace.read("runs/a/model.safetensors") == workspace.read("runs/b/model.safetensors"));
  CHECK(workspace.read("runs/a/model.safetensors") != workspace.read("runs/c/model.safetensors"));
}

TEST_CASE("the split into micro-batches moves the loss by less than 1e-5, dropout included") {
  const Workspace workspace;
  train(workspace, "whole");
  const std::vector<double> whole = train_losses(workspace, "whole");
  for (const char* rows : {"32", "16", "1"}) {
    const std::string name = std::string("split") + rows;
    train(workspace, name, {std::string("training.micro_batch_size=") + rows});
    const std::vector<double> split = train_losses(workspace, name);
    REQUIRE(split.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i) CHECK(split[i] == Approx(whole[i]).margin(1e-5));
  }
}

TEST_CASE("mixing samples leaves it open how the batch is split, and the run learns") {
  const Workspace workspace;
  const std::string mix = "data.mix={mixup: 0.4, cutmix: 1}";
  train(workspace, "whole", {mix, "training.max_duration=6ep"});
  const std::vector<double> whole = train_losses(workspace, "whole");
  CHECK(whole.back() < 0.9 * whole.front());
  CHECK(nlohmann::json::parse(workspace.read("runs/whole/summary.json"))["validation"]["last"]["top1"] > 0.5);
  train(workspace, "split", {mix, "training.max_duration=6ep", "training.micro_batch_size=16"});
  const std::vector<double> split = train_losses(workspace, "split");
  REQUIRE(split.size() == whole.size());
  for (size_t i = 0; i < whole.size(); ++i) CHECK(split[i] == Approx(whole[i]).margin(1e-5));
  train(workspace, "plain", {"training.max_duration=1ba"});
  CHECK(train_losses(workspace, "plain").front() != whole.front());
}

TEST_CASE("a network with a class for every pixel learns label maps, and only from a format that has them") {
  const Workspace workspace;
  workspace.write("pixels.yaml", R"(version: 1
run: {name: pixels, seed: 3}
model:
  input: [1, 12, 12]
  layers:
    - conv2d: {out_channels: 16, kernel_size: 3, padding: 1}
    - relu
    - conv2d: {out_channels: 4, kernel_size: 1}
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 20ep, global_batch_size: 32}
optimizer: {name: adamw, lr: 0.03}
)");
  const Outcome learnt = run_trainer({"--config", "pixels.yaml", "run.output_dir=a"}, workspace.path());
  INFO(learnt.errors);
  REQUIRE(learnt.code == 0);
  const auto summary = nlohmann::json::parse(workspace.read("a/summary.json"));
  CHECK(summary["validation"]["last"]["top1"].get<double>() > 0.8);
  CHECK(summary["validation"]["last"]["top1"].get<double>() <= 1);
  const auto problem = [&](const std::string& change) {
    const Outcome outcome = run_trainer({"plan", "--config", "pixels.yaml", change}, workspace.path());
    CHECK(outcome.code == 78);
    return outcome.errors;
  };
  CHECK(problem("data={format: idx, train: x}").find("data.format: idx has no label maps") !=
        std::string::npos);
  CHECK(problem("data.mix.mixup=1").find("data.mix: needs one label for each image") != std::string::npos);
  CHECK(problem("model.layers[2].conv2d.kernel_size=3")
            .find("must have the height and width of its input, 12x12") != std::string::npos);
}

TEST_CASE("a shell loop over batch sizes makes a directory for each, and a second loop finds them finished") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const std::string loop =
      "for b in 32 64 128; do \"$TRAINER\" --config small.yaml training.global_batch_size=$b "
      "training.max_duration=3ba || exit $?; done";
  REQUIRE(run_shell(loop, workspace.path()).code == 0);
  std::vector<fs::path> runs;
  for (const auto& entry : fs::directory_iterator(workspace.path() / "runs")) runs.push_back(entry.path());
  CHECK(runs.size() == 3);
  const Outcome again = run_shell(loop, workspace.path());
  CHECK(again.code == 0);
  CHECK(again.errors.find("this run is finished") != std::string::npos);
  CHECK(again.errors.find("step") == std::string::npos);
}

TEST_CASE("another run's directory is left alone") {
  const Workspace workspace;
  train(workspace, "a");
  const std::string before = workspace.read("runs/a/metrics.jsonl");
  const Outcome other =
      run_trainer({"--config", "small.yaml", "run.output_dir=runs/a", "optimizer.lr=0.01"}, workspace.path());
  CHECK(other.code == 78);
  CHECK(other.errors.find("optimizer.lr") != std::string::npos);
  CHECK(workspace.read("runs/a/metrics.jsonl") == before);
}

TEST_CASE("names in run.output_dir are filled in") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome outcome = run_trainer({"--config", "small.yaml", "training.max_duration=1ba",
                                       "run.output_dir=out/{run.name}-b{training.global_batch_size}"},
                                      workspace.path());
  CHECK(outcome.code == 0);
  CHECK(fs::exists(workspace.path() / "out/small-b64/summary.json"));
}

TEST_CASE("a batch log holds no control characters") {
  const Workspace workspace;
  const Outcome outcome = train(workspace, "a");
  CHECK(outcome.errors.find("validation loss") != std::string::npos);
  for (char c : outcome.errors + outcome.output + workspace.read("runs/a/log.txt")) {
    CHECK((c == '\n' || static_cast<unsigned char>(c) >= ' '));
  }
}

TEST_CASE("first weights come from a file by name, and what does not fit is named") {
  const Workspace workspace;
  train(workspace, "a");
  train(workspace, "b", {"model.initial_weights=runs/a/model.safetensors", "optimizer.lr=0.0"});
  CHECK(workspace.read("runs/a/model.safetensors") == workspace.read("runs/b/model.safetensors"));
  const Outcome wrong = run_trainer(
      {"--config", "small.yaml", "run.output_dir=runs/c", "model.layers[5].linear.out_features=33",
       "model.layers[7].linear.name=head", "model.initial_weights=runs/a/model.safetensors"},
      workspace.path());
  CHECK(wrong.code == 65);
  CHECK(wrong.errors.find("'fc1.weight' has shape 32x200, the network needs 33x200") != std::string::npos);
  CHECK(wrong.errors.find("the file has no 'head.weight' of shape 5x33") != std::string::npos);
  CHECK(wrong.errors.find("the network has no 'fc2.weight'") != std::string::npos);
  CHECK_FALSE(fs::exists(workspace.path() / "runs/c/metrics.jsonl"));
}

TEST_CASE("a network is fine-tuned: its body frozen, its head replaced") {
  const Workspace workspace;
  train(workspace, "a");
  const std::vector<std::string> head = {
      "model.initial_weights=runs/a", "model.layers[7].linear.out_features=4", "validation.metrics=[top1]"};
  const auto refused = [&](const std::string& key) {
    std::vector<std::string> arguments = {"--config", "small.yaml", "run.output_dir=runs/no", key};
    arguments.insert(arguments.end(), head.begin(), head.end());
    const Outcome outcome = run_trainer(arguments, workspace.path());
    CHECK(outcome.code != 0);
    return outcome.errors;
  };
  const std::string text = refused("run.name=x");
  CHECK(
      text.find(
          "runs/a/model.safetensors does not fit the network; list what to re-initialise in model.replace") !=
      std::string::npos);
  CHECK(text.find("'fc2.weight' has shape 5x32, the network needs 4x32") != std::string::npos);
  CHECK(refused("model.replace=[\"fc2.weight\"]").find("'fc2.bias' has shape 5") != std::string::npos);
  CHECK(refused("model.replace=[\"fc2.*\", \"cf1.*\"]").find("matches 'cf1.*'; did you mean 'fc1.*'?") !=
        std::string::npos);

  const auto tuned = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), head.begin(), head.end());
    more.emplace_back("model.replace=[\"fc2.*\"]");
    train(workspace, name, more);
    return SafetensorsFile(workspace.path() / "runs" / name / "model.safetensors");
  };
  const SafetensorsFile body(workspace.path() / "runs/a/model.safetensors");
  const SafetensorsFile all = tuned("all", {}),
                        frozen = tuned("frozen", {"model.freeze=[\"conv1.*\", \"fc1.*\"]"});
  const auto values = [](const SafetensorsFile& file, const std::string& name) {
    return file.read_floats(*file.find(name));
  };
  for (const char* name : {"conv1.weight", "conv1.bias", "fc1.weight", "fc1.bias"}) {
    INFO(name);
    CHECK(values(frozen, name) == values(body, name));
    CHECK(values(all, name) != values(body, name));
  }
  CHECK(train_losses(workspace, "frozen").front() == train_losses(workspace, "all").front());
  CHECK(train_losses(workspace, "frozen").back() < 0.8 * train_losses(workspace, "frozen").front());

  const auto memory = [&](const std::string& freeze) {
    const Outcome plan =
        run_trainer({"plan", "--config", "small.yaml", "--json", "model.freeze=" + freeze}, workspace.path());
    return nlohmann::json::parse(plan.output)["memory"];
  };
  const auto whole = memory("[]"), part = memory("[\"conv1.*\", \"fc1.*\"]");
  CHECK(part["parameters_bytes"] == whole["parameters_bytes"]);
  CHECK(part["optimizer_bytes"].get<int64_t>() < whole["optimizer_bytes"].get<int64_t>() / 4);
  CHECK(part["gradients_bytes"].get<int64_t>() < whole["gradients_bytes"].get<int64_t>() / 4);
}

TEST_CASE("a loss that is no longer finite ends the run with its step and a remedy") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome outcome = run_trainer(
      {"--config", "small.yaml", "optimizer.lr=1e38", "optimizer.clip_norm=1e30", "run.output_dir=runs/a"},
      workspace.path());
  CHECK(outcome.code == 70);
  CHECK(outcome.errors.find("at step") != std::string::npos);
  CHECK(outcome.errors.find("optimizer.lr") != std::string::npos);
  CHECK_FALSE(fs::exists(workspace.path() / "runs/a/summary.json"));
}

#ifdef TRAINER_FAULTS
TEST_CASE("a run that waits for data is told to add workers only while cores are left") {
  const Workspace workspace;
  workspace.write("run.yaml", kImageRecipe);
  fill_with_images(workspace, "train", 10);
  fill_with_images(workspace, "val", 1);
  const auto warning_with = [&](const std::string& workers) {
    const std::string slow =
        "LD_PRELOAD=" TRAINER_FAULTS
        " FAULT_PATH=train/ FAULT_CALLS=open FAULT_ACTION=slow FAULT_MS=60 FAULT_AT=1 FAULT_ALWAYS=yes ";
    const Outcome outcome = run_shell(slow +
                                          "\"$TRAINER\" train --config run.yaml training.max_duration=1ep "
                                          "training.global_batch_size=20 run.output_dir=w" +
                                          workers + " data.workers=" + workers,
                                      workspace.path());
    INFO(outcome.errors);
    CHECK(outcome.code == 0);
    CHECK(outcome.errors.find("input-bound: ") != std::string::npos);
    return outcome.errors;
  };
  CHECK(warning_with("64").find("cores have a worker, so use smaller images, or pack the samples") !=
        std::string::npos);
  const std::string one = warning_with("1");  // of one core alone the advice is the same as above
  const bool is_right = one.find("; raise data.workers above 1, or pack the samples") != std::string::npos ||
                        one.find("; all of the 1 cores have a worker") != std::string::npos;
  CHECK(is_right);
}
#endif  // TRAINER_FAULTS

TEST_CASE("TensorBoard and the table show what metrics.jsonl holds") {
  const Workspace workspace;
  train(workspace, "a", {"training.ema.decay=0.9"});
  test::compare_with_tensorboard(workspace.path() / "runs/a");
  std::istringstream table(workspace.read("runs/a/metrics.csv")),
      lines(workspace.read("runs/a/metrics.jsonl"));
  std::string head, row;
  std::getline(table, head);
  CHECK(head.starts_with("step,updates,epoch,split,loss,top1,top5,ema_loss,ema_top1,ema_top5,"));
  for (const char* column : {",time_computing,", ",lr,", ",samples_per_s,"})
    CHECK(head.find(column) != std::string::npos);
  int64_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    REQUIRE(std::getline(table, row));
    CHECK(row.starts_with(nlohmann::json::parse(line).at("step").dump() + ","));
  }
  CHECK(rows == 22);
  CHECK_FALSE(std::getline(table, row));
  train(workspace, "b", {"logging.formats=[]"});
  CHECK_FALSE(fs::exists(workspace.path() / "runs/b/metrics.csv"));
  for (const auto& entry : fs::directory_iterator(workspace.path() / "runs/b"))
    CHECK(entry.path().string().find("tfevents") == std::string::npos);
}

}  // namespace trainer
