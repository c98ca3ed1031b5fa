// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// A convolution of images, which stays in f32, one with a normalisation behind it, a sum and a linear layer.
const char* const kNormalisedRecipe = R"(version: 1
run: {name: normalised, seed: 3}
model:
  input: [1, 12, 12]
  layers:
    - conv2d: {out_channels: 8, kernel_size: 3, padding: 1, name: conv1}
    - batch_norm: {name: bn1}
    - relu: {name: first}
    - conv2d: {out_channels: 8, kernel_size: 3, padding: 1, name: conv2}
    - batch_norm: {name: bn2}
    - add: {inputs: [bn2, first]}
    - relu
    - max_pool2d: 2
    - flatten
    - linear: {out_features: 5, name: fc}
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 2ep, global_batch_size: 64}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9}
validation: {metrics: [top1]}
logging: {interval: 1ba}
)";

/// A trained network, and runs that go on from it with rounded products.
class RoundedRuns {
 public:
  RoundedRuns() {
    workspace.write("net.yaml", kNormalisedRecipe);
    const Outcome plain = run("plain", "");
    INFO(plain.errors);
    REQUIRE(plain.code == 0);
  }
  Outcome run(const std::string& name, const std::string& more) const {
    return run_shell("\"$TRAINER\" --config net.yaml run.output_dir=runs/" + name + " " + more,
                     workspace.path());
  }
  Outcome rounded(const std::string& name, const std::string& more = "") const {
    return run(
        name,
        "model.initial_weights=runs/plain/model.safetensors compression.quantize.weight_bits=7 " + more);
  }
  Outcome quantized(const std::string& name, const std::string& more = "") const {
    return run_shell("\"$TRAINER\" quantize runs/" + name + " --all --weights runs/" + name +
                         "/model.safetensors --out " + name + ".safetensors " + more,
                     workspace.path());
  }
  /// What `trainer eval` finds for the run with these weights.
  nlohmann::json measured(const std::string& name, const std::string& weights) const {
    const Outcome outcome =
        run_shell("\"$TRAINER\" eval runs/" + name + " --weights " + weights + " --json device.type=cpu",
                  workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return nlohmann::json::parse(outcome.output);
  }
  SafetensorsFile file(const std::string& name) const { return SafetensorsFile(workspace.path() / name); }

  Workspace workspace;
};

double last_validation_loss(const RoundedRuns& runs, const std::string& name) {
  return losses_in(runs.workspace.read("runs/" + name + "/metrics.jsonl"), "validation").back();
}

}  // namespace

TEST_CASE(
    "a run that rounds its products pauses and resumes with the same bits, and its weights load elsewhere") {
  const RoundedRuns runs;
  const std::string more = "training.ema.decay=0.5 compression.quantize.begin=6ba";
  const Outcome whole = runs.rounded("whole", more);
  INFO(whole.errors);
  REQUIRE(whole.code == 0);
  CHECK_THAT(whole.errors, ContainsSubstring("may be negative: conv1.weight"));
  for (const char* step : {"3", "7", "12"})
    REQUIRE(runs.rounded("parts", more + " run.stop_after=" + step + "ba").code == 0);
  REQUIRE(runs.rounded("parts", more).code == 0);
  for (const char* name :
       {"model.safetensors", "model_ema.safetensors", "checkpoints/step-00000020/optimizer.safetensors"}) {
    CHECK((runs.workspace.read(std::string("runs/whole/") + name) ==
           runs.workspace.read(std::string("runs/parts/") + name)));
  }
  const SafetensorsFile model = runs.file("runs/whole/model.safetensors"),
                        rest = runs.file("runs/whole/checkpoints/step-00000020/optimizer.safetensors");
  CHECK(model.find("fc.weight.range") == nullptr);
  REQUIRE(rest.find("fc.weight.range") != nullptr);
  CHECK(rest.find("fc.weight.range.ema") == nullptr);
  const auto ranges = nlohmann::json::parse(model.metadata().at("ranges"));
  CHECK(ranges.size() == 2);
  CHECK(ranges["conv2.weight"][0] == 0);
  CHECK(ranges["fc.weight"][1] == rest.read_floats(*rest.find("fc.weight.range"))[1]);
  const Outcome further =
      runs.run("further", "model.initial_weights=runs/whole/model.safetensors training.max_duration=2ba");
  INFO(further.errors);
  CHECK(further.code == 0);
}

TEST_CASE("trainer quantize uses the ranges of a run that rounded, and gives the network that it evaluated") {
  const RoundedRuns runs;
  const std::map<std::string, std::string> levels = {
      {"usual", ""},
      {"few", "compression.quantize.weight_bits=3 compression.quantize.activation_bits=4"},
      {"coarse",
       "compression.quantize.weights=per_tensor compression.quantize.scales=power_of_two "
       "compression.quantize.weight_bits=5"}};
  for (const auto& [name, more] : levels) {
    const Outcome trained = runs.rounded(name, more);
    INFO(name << ": " << trained.errors);
    REQUIRE(trained.code == 0);
    const Outcome written = runs.quantized(name);
    INFO(written.errors);
    REQUIRE(written.code == 0);
    CHECK_THAT(written.output, ContainsSubstring("2 products in 8 bits, 1 in f32") &&
                                   ContainsSubstring("ranges of its training"));
    const auto about = nlohmann::json::parse(runs.file(name + ".safetensors").metadata().at("quantization"));
    CHECK(about["in_f32"]["conv1.weight"] == "not rounded in training");
    const double in_int8 = runs.measured(name, name + ".safetensors")["loss"],
                 in_training = last_validation_loss(runs, name),
                 in_f32 = runs.measured(name, "runs/" + name + "/model.safetensors")["loss"];
    INFO(in_int8 << " in 8 bits, " << in_training << " in training, " << in_f32 << " in f32");
    CHECK(in_int8 == Approx(in_training).epsilon(1e-4));
    CHECK(in_f32 != Approx(in_training).epsilon(0.02));
  }
  const Outcome asked = runs.quantized("usual", "--method min_max");
  CHECK(asked.code == 64);
  CHECK_THAT(asked.errors, ContainsSubstring("leave out --method, --samples and --weight-bits"));
}

TEST_CASE("rounding that begins after the run is refused at its key") {
  const RoundedRuns runs;
  const Outcome late = runs.rounded("late", "compression.quantize.begin=20ba");
  CHECK(late.code == 78);
  CHECK_THAT(
      late.errors,
      ContainsSubstring(
          "compression.quantize.begin: rounding begins after step 20, and the run ends after step 20"));
}

TEST_CASE("ranks that round agree on ranges and weights") {
  if (!has_mpi()) return;
  const RoundedRuns runs;
  const Outcome two = run_ranks(
      "\"$TRAINER\" --config net.yaml run.output_dir=runs/two parallelism.data=2 device.threads=1 "
      "model.initial_weights=runs/plain/model.safetensors "
      "compression.quantize.weight_bits=7 parallelism.verify=1ba training.micro_batch_size=16",
      runs.workspace.path());
  INFO(two.errors);
  REQUIRE(two.code == 0);
  const auto ranges = nlohmann::json::parse(runs.file("runs/two/model.safetensors").metadata().at("ranges"));
  CHECK(ranges["fc.weight"][1] > 0.1);
}

}  // namespace trainer
