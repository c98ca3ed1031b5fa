// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"
#include "tests/processor.h"

namespace trainer {
namespace {

const std::string kAmpRecipe = kConfigs + "mlp_amp.yaml";

Outcome train_small(const Workspace& workspace, const std::string& name, std::vector<std::string> overrides) {
  workspace.write("small.yaml", kSmallRecipe);
  overrides.insert(overrides.begin(), {"--config", "small.yaml", "run.output_dir=runs/" + name,
                                       "device.emulate_bf16=true", "training.max_duration=4ep"});
  return run_trainer(overrides, workspace.path());
}

}  // namespace

TEST_CASE("in bf16 a run learns as in fp32, and twice the same") {
  if (!has_avx512()) return;
  const Workspace workspace;
  CHECK(train_small(workspace, "fp32", {}).code == 0);
  std::map<std::string, std::string> metrics;
  for (const char* name : {"one", "two"}) {
    const Outcome outcome = train_small(workspace, name, {"training.precision=amp_bf16"});
    INFO(outcome.errors);
    CHECK(outcome.code == 0);
    metrics[name] = workspace.read(std::string("runs/") + name + "/metrics.jsonl");
  }
  const std::vector<double> exact = losses_in(workspace.read("runs/fp32/metrics.jsonl"), "train"),
                            low = losses_in(metrics["one"], "train");
  CHECK(losses_in(metrics["two"], "train") == low);
  REQUIRE(low.size() == exact.size());
  CHECK(low != exact);
  for (size_t i = 0; i < low.size(); ++i) CHECK(std::abs(low[i] - exact[i]) < 0.1);
  CHECK(low.back() < 0.7 * low.front());
}

TEST_CASE("weights that are cast once a step give the bits of those cast for each micro-batch") {
  if (!has_avx512()) return;
  const Workspace workspace;
  const std::string once = "once", each = "each";
  const std::vector<std::string> common = {"training.precision=amp_bf16", "training.micro_batch_size=8"};
  CHECK(train_small(workspace, once, common).code == 0);
  std::vector<std::string> without = common;
  without.insert(without.end(), {"--disable-pass", "keep_low_weights"});
  CHECK(train_small(workspace, each, without).code == 0);
  CHECK(losses_in(workspace.read("runs/once/metrics.jsonl"), "train") ==
        losses_in(workspace.read("runs/each/metrics.jsonl"), "train"));
}

// Sanitizers cannot check learning; they check the same steps in the other cases.
#ifndef TRAINER_SANITIZED
TEST_CASE("Fashion-MNIST is learnt in bf16 as in fp32, where Debian's package is installed") {
  const std::filesystem::path data = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz";
  if (!has_avx512() || !std::filesystem::exists(data)) return;
  const Workspace workspace;
  std::map<std::string, double> top1;
  for (const char* precision : {"fp32", "amp_bf16"}) {
    const Outcome outcome = run_trainer(
        {"--config", kConfigs + "fashion_mnist_mlp.yaml", std::string("training.precision=") + precision,
         "device.emulate_bf16=true", "device.threads=1", "training.max_duration=2ep",
         "validation.interval=0ep", std::string("run.output_dir=") + precision},
        workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    const auto summary = nlohmann::json::parse(workspace.read(std::string(precision) + "/summary.json"));
    top1[precision] = summary["validation"]["last"]["top1"];
  }
  CHECK(top1["fp32"] > 0.86);
  CHECK(std::abs(top1["amp_bf16"] - top1["fp32"]) <= 0.003);
}
#endif

TEST_CASE("a precision that the device has not is refused at its key, with what to write instead") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const std::string recipe = "\"$TRAINER\" plan --config small.yaml training.precision=";
  struct Case {
    std::string line, error;
  };
  std::vector<Case> cases = {
      {recipe + "tf32", "tf32 cannot be computed here: only GPUs have tf32; write fp32"},
      {recipe + "amp_fp16",
       "amp_fp16 cannot be computed here: the CPU has no fp16 arithmetic; write amp_bf16 or fp32, or "
       "device.type=cuda"},
      {"ONEDNN_MAX_CPU_ISA=AVX2 " + recipe + "amp_bf16 device.emulate_bf16=true",
       "neither bf16 instructions nor AVX-512 to emulate them with; write fp32"}};
  if (has_avx512()) {
    cases.push_back({"ONEDNN_MAX_CPU_ISA=AVX512_CORE " + recipe + "amp_bf16",
                     "this processor has no bf16 instructions (avx512_bf16); write fp32 or, to have them "
                     "emulated slowly, device.emulate_bf16=true"});
  }
  for (const Case& c : cases) {
    INFO(c.line);
    const Outcome outcome = run_shell(c.line, workspace.path());
    CHECK(outcome.code == 78);
    CHECK(outcome.errors.find("error: training.precision: ") != std::string::npos);
    CHECK(outcome.errors.find(c.error) != std::string::npos);
  }
  if (!has_avx512()) return;
  const Outcome emulated = run_shell(
      "ONEDNN_MAX_CPU_ISA=AVX512_CORE " + recipe + "amp_bf16 device.emulate_bf16=true", workspace.path());
  CHECK(emulated.code == 0);
}

TEST_CASE(
    "the textbook example of mixed precision: refused on a CPU, its program shown, and trained in bf16") {
  const Workspace workspace;
  const Outcome refused = run_trainer({"--config", kAmpRecipe}, workspace.path());
  CHECK(refused.code == 78);
  CHECK(refused.errors.find("mlp_amp.yaml:14:3: error: training.precision: amp_fp16 cannot be computed here: "
                            "the CPU has no fp16 arithmetic; write amp_bf16 or fp32, or device.type=cuda") !=
        std::string::npos);
  const Outcome program =
      run_trainer({"plan", "--config", kAmpRecipe, "--dump", "program"}, workspace.path());
  CHECK(program.code == 0);
  for (const char* part :
       {"f16[1000,10] = cast(@fc1.weight) {to=f16}", "cross_entropy_backward(@loss_scale, ",
        " = unscale(@loss_scale, ", " = update_loss_scale(", "output skipped = "}) {
    INFO(part);
    CHECK(program.output.find(part) != std::string::npos);
  }
  if (!has_avx512()) return;
  const Outcome trained =
      run_trainer({"--config", kAmpRecipe, "training.precision=amp_bf16", "device.emulate_bf16=true",
                   "training.max_duration=1ep", "run.output_dir=run"},
                  workspace.path());
  CHECK(trained.code == 0);
  const auto summary = nlohmann::json::parse(workspace.read("run/summary.json"));
  CHECK(summary["validation"]["last"]["top1"].get<double>() > 0.5);
}

}  // namespace trainer
