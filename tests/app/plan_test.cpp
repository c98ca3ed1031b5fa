// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/app/command.h"
#include "tests/processor.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

double seconds_of_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

nlohmann::json plan_of(const Workspace& workspace, const std::vector<std::string>& arguments) {
  return nlohmann::json::parse(plan_text(workspace, arguments));
}

/// A recipe of about this many layers with made-up samples.
std::string deep_recipe(const std::string& kind, int count) {
  std::string text =
      "version: 1\nrun: {name: deep, seed: 1}\nloss: {name: cross_entropy}\n"
      "optimizer: {name: adamw, lr: 0.01}\n"
      "training: {max_duration: 4ba, global_batch_size: 8}\n"
      "data: {format: synthetic}\nmodel:\n  input: [4, 4, 4]\n  layers:\n";
  const auto add = [&](const std::string& layer) { text += "    - " + layer + "\n"; };
  if (kind != "residual") add("flatten");
  if (kind == "shared") add("linear: {name: w, out_features: 16}");
  if (kind == "shared") add("linear: {out_features: 16, name: first}");
  if (kind == "residual") add("conv2d: {name: r0, out_channels: 4, kernel_size: 1}");
  for (int i = 0; i < count; ++i) {
    if (kind == "linear") {
      add("linear: {out_features: 8}");
      add("relu");
    } else if (kind == "shared") {
      add("linear: {out_features: 16, weight_of: first, bias: false}");
    } else {
      add(fmt::format("conv2d: {{inputs: [r{}], out_channels: 4, kernel_size: 1, bias: false}}", i));
      add(fmt::format("batch_norm: {{name: b{}}}", i));
      add(fmt::format("add: {{name: r{}, inputs: [b{}, r{}]}}", i + 1, i, i));
    }
  }
  if (kind == "residual") add("flatten");
  add("linear: {out_features: 10}");
  return text;
}

/// Processor seconds of planning it: the least of this many calls, as other processes only add to them.
double seconds_of_plan(const Workspace& workspace, const std::string& text,
                       const std::vector<std::string>& settings, int calls) {
  workspace.write("deep.yaml", text);
  double least = 1e9;
  for (int i = 0; i < calls; ++i) {
    const double before = seconds_of_children();
    plan_of(workspace, [&] {
      std::vector<std::string> words{"deep.yaml"};
      words.insert(words.end(), settings.begin(), settings.end());
      return words;
    }());
    least = std::min(least, seconds_of_children() - before);
  }
  return least;
}

}  // namespace

TEST_CASE("a plan needs no data, training does") {
  const Workspace workspace;
  const std::vector<std::string> rest{"--config", kConfigs + "fashion_mnist_mlp.yaml",
                                      "data.train=nowhere/train"};
  std::vector<std::string> words{"plan"};
  words.insert(words.end(), rest.begin(), rest.end());
  const Outcome plan = run_trainer(words, workspace.path());
  CHECK(plan.code == 0);
  CHECK(plan.errors.find("warning: there is no file nowhere/train") != std::string::npos);
  CHECK(plan.output.find("memory") != std::string::npos);
  const Outcome train = run_trainer(rest, workspace.path());
  CHECK(train.code == 78);
  CHECK(train.errors.find("command line:1:6: error: data.train: there is no file nowhere/train") !=
        std::string::npos);
}

TEST_CASE("planning takes time that grows with the layers, not with their square") {
  const Workspace workspace;
  const std::string low = has_avx512() ? "training.precision=amp_bf16" : "training.precision=fp32";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"linear", {}},
      {"linear", {"training.micro_batch_size=4", low}},
      {"residual", {"memory.recompute=cheap"}},
      {"residual", {"parallelism.data=2", "training.micro_batch_size=2", "training.ema.decay=0.9"}},
      {"shared", {}}};
  for (const auto& [kind, settings] : cases) {
    CAPTURE(kind, settings);
    constexpr int kFew = few_or_all(20, 100), kTimes = 8;
    const double few = seconds_of_plan(workspace, deep_recipe(kind, kFew), settings, 3);
    const double many = seconds_of_plan(workspace, deep_recipe(kind, kTimes * kFew), settings, 1);
    CHECK(many < 2 * kTimes * few);  // their square would be 64 times
  }
}

TEST_CASE("a plan of several ranks says what synchronised batch normalisation exchanges") {
  const Workspace workspace;
  std::vector<std::string> words{kConfigs + "resnet18_cifar10.yaml", "data.format=synthetic",
                                 "device.type=cpu", "parallelism.data=2"};
  const auto plain = plan_of(workspace, words);
  CHECK_FALSE(plain.contains("statistics"));
  words.emplace_back("parallelism.sync_batch_norm=true");
  const auto synchronised = plan_of(workspace, words);
  CHECK(synchronised["statistics"]["sums"] == 40);  // of 20 normalisations, forward and backward
  CHECK(synchronised["statistics"]["bytes"] == 2 * 2 * 2 * 4800 * 4);
  CHECK(synchronised["buckets"].size() == plain["buckets"].size());
  words[3] = "parallelism.data=1";
  CHECK_FALSE(plan_of(workspace, words).contains("statistics"));
}

TEST_CASE("ranks that share the optimizer's moments need their part of its memory") {
  const Workspace workspace;
  std::vector<std::string> words{kConfigs + "resnet50_imagenet.yaml",
                                 "model.network=" + kConfigs + "models/resnet18.yaml",
                                 "data.format=synthetic",
                                 "parallelism.data=1",
                                 "parallelism.shard_optimizer=true",
                                 "device.type=cpu"};
  const auto bytes = [](const nlohmann::json& plan) {
    return plan["memory"]["optimizer_bytes"].get<double>();
  };
  const auto alone = plan_of(workspace, words);
  CHECK_FALSE(alone.contains("shards"));
  for (const int ranks : {2, 4}) {
    words[3] = "parallelism.data=" + std::to_string(ranks);
    const auto shared = plan_of(workspace, words);
    INFO(ranks << " ranks");
    CHECK(bytes(shared) <= 1.05 / ranks * bytes(alone));
    CHECK(bytes(shared) >= bytes(alone) / ranks);
    // Memory includes the gaps between tensors.
    CHECK(shared["shards"]["parameter_bytes"].get<double>() ==
          Approx(shared["memory"]["parameters_bytes"].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("ranks that hold parts of the parameters need their part of the memory") {
  const Workspace workspace;
  std::vector<std::string> words{kConfigs + "resnet18_cifar10.yaml",  "data.format=synthetic",
                                 "optimizer={name: adamw}",           "parallelism.data=1",
                                 "parallelism.shard_parameters=true", "device.type=cpu"};
  const auto alone = plan_of(workspace, words);
  CHECK_FALSE(alone.contains("parts"));
  for (const int ranks : {2, 4}) {
    words[3] = "parallelism.data=" + std::to_string(ranks);
    const auto shared = plan_of(workspace, words);
    INFO(ranks << " ranks");
    for (const char* kind : {"parameters_bytes", "optimizer_bytes"}) {
      const auto own = shared["memory"][kind].get<double>(), all = alone["memory"][kind].get<double>();
      CHECK(own <= 1.01 / ranks * all);
      CHECK(own >= 0.99 * all / ranks);  // whole weights lie in padded layouts
    }
    for (size_t i = 0; i < alone["layers"].size(); ++i)
      CHECK(shared["layers"][i]["parameters"] == alone["layers"][i]["parameters"]);
    CHECK(shared["parts"]["scattered_bytes"].get<double>() <=
          1.01 * alone["memory"]["parameters_bytes"].get<double>());
  }
}

TEST_CASE("parts of the parameters move 1.5 times the bytes of whole ones in f32, and as many in bf16") {
  const Workspace workspace;
  for (const auto& [precision, most] : {std::pair{"fp32", 1.5}, {"amp_bf16", 1.0}}) {
    std::vector<std::string> words{
        kConfigs + "gpt2_tokens.yaml",  "data.format=synthetic",
        "parallelism.data=4",           "parallelism.shard_parameters=false",
        "training.global_batch_size=4", "training.micro_batch_size=1",
        "device.emulate_bf16=true",     std::string("training.precision=") + precision};
    const auto whole = plan_of(workspace, words);
    words[3] = "parallelism.shard_parameters=true";
    const auto parts = plan_of(workspace, words);
    INFO(precision);
    // Along a ring a sum is a scatter and a gather of its result.
    const double summed = 2 * whole["traffic_bytes"]["data"].get<double>();
    const auto moved = parts["traffic_bytes"]["shards"].get<double>();
    CHECK(moved <= most * summed);
    CHECK(moved >= 0.95 * most * summed);
    CHECK(parts["traffic_bytes"]["data"].get<double>() < 100);
  }
}

TEST_CASE("shipped networks: parameter counts, no reference code, an arena near its lower bound") {
  const Workspace workspace;
  const std::vector<std::pair<std::string, int64_t>> networks = {{"mlp", 886110}, {"cnn", 1199882}};
  for (const auto& [name, parameters] : networks) {
    for (const char* rows : {"128", "32"}) {
      INFO(name << " micro-batch " << rows);
      const auto plan =
          plan_of(workspace, {kConfigs + "fashion_mnist_" + name + ".yaml", "data.format=synthetic",
                              std::string("training.micro_batch_size=") + rows});
      int64_t sum = 0;
      for (const auto& layer : plan["layers"]) sum += layer["parameters"].get<int64_t>();
      CHECK(sum == parameters);
      for (const auto& entry : plan["entries"]) {
        INFO(entry["name"]);
        CHECK(entry["scratch_bytes"].get<double>() <= 1.05 * entry["lower_bound_bytes"].get<double>());
        for (const auto& node : entry["nodes"]) {
          CHECK_FALSE(node["implementation"].get<std::string>().starts_with("ref"));
        }
      }
    }
  }
}

TEST_CASE("shipped networks of torchvision: its parameter counts, no reference code") {
  const Workspace workspace;
  const std::vector<std::pair<std::string, int64_t>> networks = {
      {"resnet18", 11689512},     {"resnet34", 21797672},          {"resnet50", 25557032},
      {"resnet101", 44549160},    {"mobilenet_v2", 3504872},       {"vgg16", 138357544},
      {"densenet121", 7978856},   {"mobilenet_v3_large", 5483032}, {"efficientnet_b0", 5288548},
      {"convnext_tiny", 28589128}};
  for (const auto& [name, parameters] : networks) {
    INFO(name);
    const auto plan = plan_of(
        workspace, {kConfigs + "resnet50_imagenet.yaml", "data.format=synthetic", "model.network=" + name,
                    "training.global_batch_size=2", "training.micro_batch_size=2"});
    int64_t sum = 0;
    for (const auto& layer : plan["layers"]) sum += layer["parameters"].get<int64_t>();
    CHECK(sum == parameters);
    for (const auto& entry : plan["entries"]) {
      for (const auto& node : entry["nodes"]) {
        CHECK_FALSE(node["implementation"].get<std::string>().starts_with("ref"));
      }
    }
  }
}

TEST_CASE("the 3x3 convolution of the shipped network is a Winograd one in all directions") {
  const Workspace workspace;
  auto algorithms = [&](const std::string& setting) {
    std::map<std::string, int> count;
    const auto plan = plan_of(workspace, {kConfigs + "fashion_mnist_cnn.yaml", "data.format=synthetic",
                                          "runtime.winograd=" + setting});
    for (const auto& node : plan["entries"][0]["nodes"]) ++count[node["algorithm"].get<std::string>()];
    return count;
  };
  auto own = algorithms("auto"), others = algorithms("off");
  CHECK(own["winograd, own"] + own["winograd"] == (kOnX86 ? 3 : 0));
  CHECK(others["winograd, own"] == 0);
  // oneDNN's needs AVX-512, and forward uses none of its functions but a relu that loses NaN.
  CHECK((others["winograd"] == 0 || others["winograd"] == 2));
}

TEST_CASE("planned peak memory is within 5 % or 32 MiB of the measured one") {
#ifdef TRAINER_SANITIZED
  WARN("sanitizers hold memory of their own: not measured here");
#else
  const Workspace workspace;
  for (const char* name : {"fashion_mnist_mlp", "fashion_mnist_cnn"}) {
    INFO(name);
    const Outcome outcome = run_trainer({"--config", kConfigs + name + ".yaml", "data.format=synthetic",
                                         "training.max_duration=5ba", std::string("run.output_dir=") + name},
                                        workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    const auto memory = nlohmann::json::parse(workspace.read(std::string(name) + "/summary.json"))["memory"];
    const double planned = memory["planned_bytes"], peak = memory["peak_bytes"];
    CHECK(std::abs(planned - peak) <= std::max(0.05 * peak, 32.0 * 1024 * 1024));
  }
#endif
}

TEST_CASE("too little memory is refused before the start, with what would fit") {
  const Workspace workspace;
  const std::string recipe = kConfigs + "fashion_mnist_cnn.yaml";
  auto peak = [&](const std::string& rows) {
    const auto plan =
        plan_of(workspace, {recipe, "data.format=synthetic", "training.micro_batch_size=" + rows});
    return plan["memory"]["peak_bytes"].get<int64_t>();
  };
  // Between the two, whatever the process itself takes (with sanitizers: most).
  const std::string memory = "device.memory=" + std::to_string((peak("128") + peak("16")) / 2);
  const Outcome outcome = run_trainer(
      {"--config", recipe, "data.format=synthetic", memory, "run.output_dir=a"}, workspace.path());
  CHECK(outcome.code == 71);
  CHECK(outcome.errors.find("device.memory has ") != std::string::npos);
  const size_t at = outcome.errors.find("training.micro_batch_size=");
  REQUIRE(at != std::string::npos);
  const std::string advice = outcome.errors.substr(at, outcome.errors.find('\n', at) - at);
  const Outcome advised = run_trainer({"--config", recipe, "data.format=synthetic", memory,
                                       "run.output_dir=a", advice, "training.max_duration=1ba"},
                                      workspace.path());
  INFO(advice << "\n" << advised.errors);
  CHECK(advised.code == 0);
}

TEST_CASE("programs are shown after each pass, and optional passes can be left out") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  auto dump = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "--config", "small.yaml"});
    const Outcome outcome = run_trainer(more, workspace.path());
    CHECK(outcome.code == 0);
    return outcome.output;
  };
  CHECK(dump({"--dump", "program:after=loss"}).find("relu(") != std::string::npos);
  CHECK(dump({"--dump", "program:after=loss"}).find("relu_backward") == std::string::npos);
  CHECK(dump({"--dump", "program:after=fuse_relu"}).find(" relu(") == std::string::npos);
  CHECK(dump({"--dump", "program:after=autodiff"}).find("conv2d_backward_weights") != std::string::npos);
  CHECK(dump({"--dump", "program"}).find("sgd(") != std::string::npos);
  CHECK(dump({"--dump", "program", "--disable-pass", "fuse_relu"}).find(" relu(") != std::string::npos);
  const Outcome wrong =
      run_trainer({"plan", "--config", "small.yaml", "--disable-pass", "autodiff"}, workspace.path());
  CHECK(wrong.code == 64);
  CHECK(wrong.errors.find("passes: ") != std::string::npos);
}

TEST_CASE("the resolved recipe names the source of each value and keeps variables unexpanded") {
  const Workspace workspace;
  workspace.write("env.yaml", std::string(kSmallRecipe) + "loss:\n  label_smoothing: ${env:SMOOTH}\n");
  const Outcome outcome =
      run_shell("SMOOTH=0.1 \"$TRAINER\" --config env.yaml --dump-config optimizer.lr=0.5", workspace.path());
  INFO(outcome.output << outcome.errors);
  CHECK(outcome.code == 0);
  CHECK(outcome.output.find("lr: 0.5  # command line:1") != std::string::npos);
  CHECK(outcome.output.find("label_smoothing: ${env:SMOOTH}  # env.yaml:") != std::string::npos);
  CHECK(outcome.output.find("weight_decay: 0  # default") != std::string::npos);
}

TEST_CASE("wrong usage ends with 64, and help names every command") {
  const Workspace workspace;
  CHECK(run_trainer({"trian", "--config", "x.yaml"}, workspace.path()).code == 64);
  CHECK(run_trainer({"trian"}, workspace.path()).errors.find("did you mean 'train'?") != std::string::npos);
  CHECK(run_trainer({"--nonsense"}, workspace.path()).code == 64);
  CHECK(run_trainer({"train"}, workspace.path()).code == 64);
  const Outcome help = run_trainer({"--help"}, workspace.path());
  CHECK(help.code == 0);
  for (const char* command : {"train", "plan", "layers", "schema"})
    CHECK(help.output.find(command) != std::string::npos);
  const Outcome missing = run_trainer({"--config", "nowhere.yaml"}, workspace.path());
  CHECK(missing.code == 78);
  CHECK(missing.errors.find("nowhere.yaml") != std::string::npos);
}

TEST_CASE("the registry lists layers with parameters, defaults and bounds") {
  const Workspace workspace;
  const Outcome outcome = run_trainer({"layers"}, workspace.path());
  CHECK(outcome.code == 0);
  for (const char* name : {"conv2d", "linear", "max_pool2d", "gelu", "dropout", "concat", "cross_entropy",
                           "sgd", "adamw", "cosine", "multi_step", "random_crop", "top5", "negative_slope"}) {
    INFO(name);
    CHECK(outcome.output.find(name) != std::string::npos);
  }
}

TEST_CASE("a device that is not there ends with 69 and its reason") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome outcome =
      run_trainer({"--config", "small.yaml", "device.type=cuda", "run.output_dir=a"}, workspace.path());
  if (outcome.code == 0 || outcome.code == 78)
    return;  // there is a GPU here: refused by the plan, or trained
  CHECK(outcome.code == 69);
  CHECK(outcome.errors.find("cuda") != std::string::npos);
}

TEST_CASE("training.micro_batch_size=auto is the largest divisor that fits: the next one would not") {
  const Workspace workspace;
  std::vector<std::string> rest{kConfigs + "fashion_mnist_cnn.yaml", "data.format=synthetic",
                                "training.global_batch_size=96"};
  const auto with_rows = [&](const std::string& rows) {
    std::vector<std::string> words = rest;
    words.push_back("training.micro_batch_size=" + rows);
    return plan_of(workspace, words);
  };
  const auto peak = [](const nlohmann::json& plan) { return plan["memory"]["peak_bytes"].get<int64_t>(); };
  const int64_t between = (peak(with_rows("96")) + peak(with_rows("48"))) / 2;
  rest.push_back("device.memory=" + std::to_string(between));
  const auto found = with_rows("auto");
  CHECK(found["micro_batch_size"] == 48);
  CHECK(peak(found) <= between);

  std::vector<std::string> words{"plan", "--config"};
  words.insert(words.end(), rest.begin(), rest.end());
  words.push_back("training.micro_batch_size=auto");
  CHECK(run_trainer(words, workspace.path())
            .output.find("micro_batch_size=auto chose 48: the largest divisor of 96 whose plan fits") !=
        std::string::npos);
}

TEST_CASE("where no micro-batch fits, the advice names a division of the network whose plan fits") {
  const Workspace workspace;
  workspace.write("wide.yaml", R"(version: 1
device: {type: cpu}
model: {input: [1, 2, 8], layers: [flatten, linear: 2048, relu, linear: 2048, relu, linear: 2048, relu, linear: 8]}
data: {format: synthetic, synthetic: {train_samples: 64, val_samples: 8}}
training: {max_duration: 3ba, global_batch_size: 8}
optimizer: {name: adamw}
checkpoint: {interval: 1ep}
)");
  const std::string before = "no micro-batch size is small enough; try ";
  // The keys that a text advises.
  const auto advised = [&](const std::string& text) {
    const size_t begin = text.find(before), end = text.find(" (on ", begin);
    REQUIRE(begin != std::string::npos);
    REQUIRE(end != std::string::npos);
    std::istringstream words(text.substr(begin + before.size(), end - begin - before.size()));
    return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
  };
  const std::string memory = few_or_all<const char*>("device.memory=280MiB", "device.memory=200MiB");
  const Outcome refused = run_trainer({"--config", "wide.yaml", memory}, workspace.path());
  CHECK(refused.code == 71);
  CHECK(advised(refused.errors).size() >= 2);
  std::vector<std::vector<std::string>> recipes = {{memory}};
  if (!kIsSanitized) {  // whose processes are larger
    recipes.push_back({memory, "parallelism.data=2", "parallelism.shard_optimizer=true"});
    recipes.push_back({"device.memory=120MiB", "parallelism.data=2", "parallelism.tensor=2"});
    recipes.push_back({"device.memory=150MiB", "parallelism.pipeline=2", "parallelism.cuts=['3']",
                       "training.micro_batch_size=2"});
  }
  for (std::vector<std::string>& words : recipes) {
    words.insert(words.begin(), {"plan", "--config", "wide.yaml"});
    const Outcome plan = run_trainer(words, workspace.path());
    INFO(plan.output);
    CHECK_THAT(plan.output, Catch::Matchers::ContainsSubstring("DOES NOT FIT\n" + before));
    for (const std::string& key : advised(plan.output)) {
      std::erase_if(words, [&](const std::string& word) {
        return word.substr(0, word.find('=')) == key.substr(0, key.find('='));
      });
      words.push_back(key);
    }
    const Outcome fits = run_trainer(words, workspace.path());
    INFO(fits.output << fits.errors);
    CHECK(fits.code == 0);
    CHECK_THAT(fits.output, !Catch::Matchers::ContainsSubstring("DOES NOT FIT"));
  }
}

TEST_CASE("where not even one sample fits, auto is 1 and training says what it would need") {
  const Workspace workspace;
  const std::vector<std::string> words{
      "--config",           kConfigs + "fashion_mnist_cnn.yaml", "data.format=synthetic",
      "device.memory=1MiB", "training.global_batch_size=4",      "training.micro_batch_size=auto"};
  const Outcome train = run_trainer(words, workspace.path());
  CHECK(train.code == 71);
  CHECK(train.errors.find("no micro-batch size is small enough") != std::string::npos);
}

TEST_CASE("samples are kept on a GPU only: a processor reads them where they lie") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome outcome =
      run_trainer({"plan", "--config", "small.yaml", "data.cache=device"}, workspace.path());
  CHECK(outcome.code == 78);
  CHECK(outcome.errors.find("data.cache: device requires a GPU: the cpu reads samples in place; write none, "
                            "or device.type: cuda") != std::string::npos);
}

}  // namespace trainer
