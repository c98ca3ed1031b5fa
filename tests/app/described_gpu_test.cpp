// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

nlohmann::json plan_of(const Workspace& workspace, const std::vector<std::string>& arguments) {
  return nlohmann::json::parse(plan_text(workspace, arguments));
}

}  // namespace

TEST_CASE("a GPU to plan for that nobody has described is an error at its key") {
  const Workspace workspace;
  const auto plan = [&](const std::string& model) {
    return run_trainer({"plan", "--config", kConfigs + "fashion_mnist_mlp.yaml", "device.type=cuda",
                        "device.model=" + model},
                       workspace.path());
  };
  const Outcome unknown = plan("h300");
  CHECK(unknown.code == 78);
  CHECK(unknown.errors.find("error: device.model: unknown GPU 'h300': choose auto, a10, a100, b200, h100, "
                            "h100_pcie, h200, l4, l40s, rtx4090, rtx5090, or a file that ends in .json") !=
        std::string::npos);
  CHECK(plan("nowhere.json").errors.find("device.model: cannot read the description nowhere.json") !=
        std::string::npos);
  workspace.write("half.json", R"({"deviceVer": 900})");
  const Outcome half = plan("half.json");
  CHECK(half.code == 65);
  CHECK(half.errors.find("half.json: the description of a GPU lacks \"deviceName\"") != std::string::npos);
}

TEST_CASE("Llama 8B on GPUs that share its parameters needs less than torchtitan has published") {
  const Workspace workspace;
  // GiB of a GPU at its peak; torchtitan 0.1: 77.0 on 8, 62.0 on 128.
  for (const auto& [ranks, most] : {std::pair{8, 64.0}, std::pair{128, 50.0}}) {
    const Outcome outcome =
        run_trainer({"plan", "--json", "--config", kConfigs + "llama_8b_tokens.yaml", "device.type=cuda",
                     "device.model=h100", "parallelism.data=" + std::to_string(ranks),
                     "training.global_batch_size=" + std::to_string(2 * ranks)},
                    workspace.path());
    if (outcome.code == 69) return;
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    const nlohmann::json plan = nlohmann::json::parse(outcome.output);
    int64_t parameters = 0;
    for (const auto& layer : plan["layers"]) parameters += layer["parameters"].get<int64_t>();
    CHECK(parameters == 8030261248);
    CHECK(plan["memory"]["peak_bytes"].get<double>() <= most * (int64_t{1} << 30));
    CHECK(plan["memory"]["parameters_bytes"].get<double>() <= 1.01 / ranks * 4 * 8030261248);
  }
}

TEST_CASE("a plan for a GPU that is not here says for which, what is a bound, and what would fit") {
  const Workspace workspace;
  const std::vector<std::string> words{"plan",
                                       "--config",
                                       kConfigs + "fashion_mnist_mlp.yaml",
                                       "data.format=synthetic",
                                       "device.type=cuda",
                                       "device.model=a100",
                                       "device.memory=80GiB"};
  const Outcome outcome = run_trainer(words, workspace.path());
  if (outcome.code == 69) {
    CHECK(outcome.errors.find("device.type=cuda: ") != std::string::npos);
    WARN(outcome.errors);
    return;
  }
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  // The model of a GPU is enough.
  std::vector<std::string> without_type = words;
  std::erase(without_type, "device.type=cuda");
  CHECK(run_trainer(without_type, workspace.path()).output.find("NVIDIA A100-SXM4-80GB") !=
        std::string::npos);
  for (const char* text : {"planned from the description of a GPU: cuDNN 9.", "NVIDIA A100-SXM4-80GB",
                           "(an upper bound, and so is the peak)", " of 80.0 GiB", "host memory"}) {
    INFO(text);
    CHECK(outcome.output.find(text) != std::string::npos);
  }
  const auto plan =
      plan_of(workspace, {words[2], words[3], words[4], words[5], "training.micro_batch_size=auto"});
  CHECK(plan["memory"]["peak_is_bound"] == true);
  CHECK(plan["micro_batch_size"] == 128);
  CHECK(plan["memory"]["available_bytes"] == 85100068864 - (int64_t{1} << 30));
  CHECK(plan["host_memory"].contains("program_bytes"));
  const auto of_two = plan_of(workspace, {words[2], words[3], words[4], words[5], "parallelism.data=2"});
  CHECK(of_two["memory"]["available_bytes"] == 85100068864 - (int64_t{3} << 29));  // NCCL takes its part
}

TEST_CASE("a plan for a described GPU predicts its times, by its rates alone") {
  const Workspace workspace;
  if (!has_cuda()) return;
  const std::vector<std::string> words{kConfigs + "fashion_mnist_cnn.yaml", "data.format=synthetic",
                                       "device.type=cuda", "training.precision=amp_bf16"};
  const auto planned_for = [&](const std::string& model) {
    std::vector<std::string> all = words;
    all.push_back("device.model=" + model);
    return plan_of(workspace, all);
  };
  const nlohmann::json plan = planned_for("h200");
  const nlohmann::json& predicted = plan["predicted"];
  double seconds = 0;
  int64_t kernels = 0;
  for (const auto& node : plan["entries"][0]["nodes"]) {
    seconds += node["predicted_seconds"].get<double>();
    kernels += node["kernels"].get<int64_t>();
  }
  CHECK(predicted["seconds"].get<double>() == Approx(seconds));
  CHECK(predicted["kernels"] == kernels);
  CHECK(predicted["samples_per_second"].get<double>() == Approx(128 / seconds));
  CHECK(predicted["power_limit_watts"] == 700);
  CHECK(predicted["most_joules_per_sample"].get<double>() == Approx(700 * seconds / 128));
  CHECK(planned_for("a100")["predicted"]["seconds"] > predicted["seconds"]);
  CHECK(plan["tensor_cores"].back()["advice"] == "10 output features are computed as 16");
  const auto large =
      plan_of(workspace, {kConfigs + "resnet50_imagenet.yaml", "data.format=synthetic", "device.type=cuda",
                          "device.model=h200", "training.precision=amp_bf16"});
  CHECK(large["tensor_cores"].size() == 54);  // products of the gradient do not count

  std::ifstream file(kConfigs + "devices/h200.json");
  auto description = nlohmann::json::parse(file);
  description.erase("rates");
  workspace.write("unrated.json", description.dump());
  CHECK_FALSE(planned_for("unrated.json").contains("predicted"));
  std::vector<std::string> table{"plan", "--devices", "a100,unrated.json", "--config"};
  table.insert(table.end(), words.begin(), words.end());
  const Outcome compared = run_trainer(table, workspace.path());
  CHECK(compared.code == 0);
  CHECK(compared.output.find("a100 ") != std::string::npos);
  CHECK(compared.output.find("no rates") != std::string::npos);
  table[2] = "a100,h300";
  const Outcome unknown = run_trainer(table, workspace.path());
  CHECK(unknown.code == 78);
  CHECK(unknown.output.empty());
  CHECK(unknown.errors.find("unknown GPU 'h300'") != std::string::npos);
}

TEST_CASE("rank 0 of GPUs that share the optimizer's moments has no memory for those of others") {
  if (!has_cuda()) return;
  const Workspace workspace;
  const auto planned = [&](const std::string& shards) {
    return plan_of(workspace,
                   {kConfigs + "resnet50_imagenet.yaml", "model.network=" + kConfigs + "models/resnet18.yaml",
                    "data.format=synthetic", "parallelism.data=4", "parallelism.shard_optimizer=" + shards,
                    "device.type=cuda", "device.model=h200"});
  };
  const auto whole = planned("false"), shared = planned("true");
  const auto on_device = [](const nlohmann::json& plan) {
    return plan["memory"]["optimizer_bytes"].get<double>();
  };
  CHECK(on_device(shared) < 0.3 * on_device(whole));
  CHECK(on_device(shared) >= on_device(whole) / 4);
  CHECK(shared["memory"]["peak_bytes"].get<double>() <
        whole["memory"]["peak_bytes"].get<double>() - 0.7 * on_device(whole));
  const auto copied = [](const nlohmann::json& plan) {
    return plan["host_memory"]["checkpoint_bytes"].get<double>();
  };
  CHECK(copied(whole) >= on_device(whole));
  // Beside the copy of its own share, the largest tensor of 512 x 512 x 3 x 3, twice where it is stored in
  // another order, and 8 MiB of pieces.
  CHECK(copied(shared) < copied(whole) - 0.7 * on_device(whole) + 2 * 4 * 512 * 512 * 9 + (8 << 20));
}

}  // namespace trainer
