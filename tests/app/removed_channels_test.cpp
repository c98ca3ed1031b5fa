// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

const std::string kLargeRecipe = R"(version: 1
run: {name: large, output_dir: run}
data: {format: synthetic, synthetic: {train_samples: 64, val_samples: 32}}
model:
  input: [1, 8, 8]
  templates:
    block:
      arguments: {channels: }
      layers:
        - conv2d: {name: conv, out_channels: "${channels}", kernel_size: 3, padding: 1, bias: false}
        - batch_norm: {name: norm}
        - relu
  layers:
    - block: {name: one, channels: 16}
    - block: {name: two, channels: 32}
    - global_avg_pool2d
    - flatten
    - linear: {name: head, out_features: 4}
training: {max_duration: 4ba, global_batch_size: 16, ema: {decay: 0.9}}
optimizer: {name: sgd, lr: 0.05}
)";

/// A transposed convolution in groups and attention.
const std::string kAttendingRecipe = R"(version: 1
run: {name: attending, output_dir: run}
data: {format: synthetic, synthetic: {train_samples: 16, val_samples: 16}}
model:
  input: [1, 8, 8]
  layers:
    - conv2d: {name: a, out_channels: 12, kernel_size: 1, bias: false}
    - conv_transpose2d: {name: t, out_channels: 12, groups: 2, kernel_size: 1, bias: false}
    - to_tokens
    - linear: {name: qkv, out_features: 24, bias: false}
    - attention: 2
    - mean_tokens
    - linear: {name: head, out_features: 4}
training: {max_duration: 1ba, global_batch_size: 16}
optimizer: {name: sgd, lr: 0.05}
)";

/// A folder with a trained network.
struct TrainedFolder {
  Workspace workspace;
  explicit TrainedFolder(const std::string& recipe = kLargeRecipe) {
    workspace.write("r.yaml", recipe);
    const Outcome trained = run_trainer({"train", "--config", "r.yaml"}, workspace.path());
    INFO(trained.errors);
    REQUIRE(trained.code == 0);
  }
  Outcome run(const std::string& line) const { return run_shell("\"$TRAINER\" " + line, workspace.path()); }
  void check_refused(const std::string& options, int code, const std::string& text) const {
    INFO(options);
    const Outcome outcome = run("prune " + options);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.errors, ContainsSubstring(text));
  }
};

/// Another file of weights, with NaN as the last value of one tensor.
void write_with_nan(const fs::path& from, const fs::path& to, const std::string& tensor) {
  const SafetensorsFile file(from);
  write_safetensors(to, file.tensors(), {}, [&](size_t i, const ByteSink& sink) {
    std::vector<float> values = file.read_floats(file.tensors()[i]);
    if (file.tensors()[i].name == tensor) values.back() = std::numeric_limits<float>::quiet_NaN();
    sink(std::as_bytes(std::span(values)));
  });
}

}  // namespace

TEST_CASE("prune writes a smaller network that is evaluated, trains on and is pruned again") {
  const TrainedFolder folder;
  const Outcome pruned = folder.run("prune run --keep 0.5 --out small");
  INFO(pruned.errors);
  REQUIRE(pruned.code == 0);
  CHECK_THAT(pruned.output, ContainsSubstring("one.conv        16 -> 8 "));
  CHECK_THAT(pruned.output, ContainsSubstring("stays: the network's output"));
  CHECK_THAT(pruned.output, ContainsSubstring("trainer --config small/recipe.yaml"));
  const SafetensorsFile weights(folder.workspace.path() / "small/model.safetensors");
  CHECK(weights.find("two.conv.weight")->shape == Shape{16, 8, 3, 3});
  CHECK(weights.find("two.norm.running_var")->shape == Shape{16});
  CHECK_THAT(folder.workspace.read("small/recipe.yaml"), !ContainsSubstring("templates"));

  fs::rename(folder.workspace.path() / "small", folder.workspace.path() / "moved");
  const Outcome evaluated = folder.run("eval --config moved/recipe.yaml run.resume=moved/model.safetensors");
  INFO(evaluated.errors);
  CHECK(evaluated.code == 0);
  const Outcome trained = folder.run("--config moved/recipe.yaml run.output_dir=further");
  INFO(trained.errors);
  CHECK(trained.code == 0);
  const Outcome again = folder.run("prune further --keep 0.5 --by gamma --out smaller");
  INFO(again.errors);
  CHECK(again.code == 0);
  CHECK_THAT(again.output, ContainsSubstring("two.conv        16 -> 8 "));
}

TEST_CASE("prune refuses what it cannot do, and writes nothing then") {
  const TrainedFolder folder;
  folder.check_refused("run --out small", 64, "--keep is required");
  folder.check_refused("run --keep 0 --out small", 64, "above 0 and up to 1");
  folder.check_refused("run --keep 1.5 --out small", 64, "--keep");
  folder.check_refused("run --keep nan --out small", 64, "--keep");
  folder.check_refused("run --keep 0.5", 64, "--out is required");
  folder.check_refused("run --keep 0.5 --out small --multiple 0", 64, "--multiple");
  folder.check_refused("run --keep 0.5 --out small --by size", 64, "--by");
  folder.check_refused("run --keep 0.5 --out small --except 'three.*'", 64,
                       "--except 'three.*' matches no layer");
  folder.check_refused("run --keep 0.5 --out run", 64, "run: exists and is not an empty directory");
  folder.check_refused("run --keep 0.5 --out r.yaml", 64, "r.yaml: exists and is not an empty directory");
  folder.check_refused("run --keep 0.5 --out small --except '*'", 78,
                       "there is no channel to remove: --except names it");
  folder.check_refused("--config r.yaml --weights none.safetensors --keep 0.5 --out small", 65,
                       "none.safetensors");
  CHECK_FALSE(fs::exists(folder.workspace.path() / "small"));
  CHECK(folder.run("prune run --keep 1 --out whole").code == 0);
}

TEST_CASE("prune refuses weights that have no order or 8 bits, and names the file") {
  const TrainedFolder folder;
  const fs::path at = folder.workspace.path();
  const std::string as = " --keep 0.5 --out small --weights ";
  for (const std::string name : {"two.conv.weight", "two.norm.running_var"}) {
    write_with_nan(at / "run/model.safetensors", at / "nan.safetensors", name);
    folder.check_refused("run" + as + "nan.safetensors", 65,
                         "nan.safetensors: '" + name + "' has infinite or NaN values");
  }
  const Outcome quantized = folder.run("quantize run --all --samples 16 --out int8.safetensors");
  INFO(quantized.errors);
  REQUIRE(quantized.code == 0);
  folder.check_refused("run" + as + "int8.safetensors", 65, "int8.safetensors has weights of 8 bits");
  folder.check_refused("run --keep 0.5 --out ''", 64, "--out");
  CHECK_FALSE(fs::exists(at / "small"));
}

TEST_CASE("a smaller network's weights do not have the evaluation of those before") {
  const TrainedFolder folder;
  const fs::path at = folder.workspace.path();
  REQUIRE(SafetensorsFile(at / "run/model_best.safetensors").metadata().contains("best"));
  REQUIRE(folder.run("prune run --keep 0.5 --out small").code == 0);
  const StoredMetadata metadata = SafetensorsFile(at / "small/model.safetensors").metadata();
  CHECK(metadata.contains("input"));
  CHECK_FALSE(metadata.contains("best"));
}

TEST_CASE("prune counts channels of outputs, and operations without weights") {
  const TrainedFolder folder(kAttendingRecipe);
  const Outcome pruned = folder.run("prune run --keep 0.5 --multiple 1 --out small");
  INFO(pruned.errors << pruned.output);
  REQUIRE(pruned.code == 0);
  CHECK_THAT(pruned.output, ContainsSubstring("\nt             12 -> 6 "));
  // Attention's 2 x 64 x 64 x 8 multiply-adds, and half of the mean's 64 x 8 additions.
  CHECK_THAT(pruned.output, ContainsSubstring("\nothers                  65.79 k -> 65.79 k "));
  CHECK_THAT(pruned.output, ContainsSubstring("85.4 % of the multiply-adds"));
}

}  // namespace trainer
