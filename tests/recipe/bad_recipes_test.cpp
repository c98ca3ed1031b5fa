// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include "tests/catch.h"

#include "core/recipe/assemble.h"

namespace trainer {

/// Each file in bad/ begins with a comment: the place and the message that it must produce.
TEST_CASE("a bad recipe gives the message that its first line states") {
  const std::filesystem::path folder = std::filesystem::path(TRAINER_SOURCE_DIR) / "tests/recipe/bad";
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::string expected;
    std::getline(std::ifstream(file.path()), expected);
    REQUIRE(expected.starts_with("# "));
    expected = file.path().string() + ":" + expected.substr(2);
    std::string problems = "no error at all";
    try {
      forward_program(Recipe::load(file.path().string(), {}));
    } catch (const Error& error) {
      problems = error.what();
      CHECK(error.code() == ExitCode::recipe);
    }
    INFO("expected " << expected << "\ngot      " << problems);
    CHECK(problems.starts_with(expected));
    CHECK(problems.ends_with("1 error, nothing was started"));
    ++files;
  }
  CHECK(files >= 16);
}

TEST_CASE("what PyTorch's scripts call a key is refused with our name, at whatever level it stands") {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/configs/fashion_mnist_cnn.yaml";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"epochs=3", "error: unknown key 'epochs'; recipes call it 'training.max_duration', such as 10ep"},
      {"training.num_epochs=3", "error: training: unknown key 'num_epochs'; recipes call it "},
      {"batch_size=8", "error: unknown key 'batch_size'; recipes call it 'training.global_batch_size'"},
      {"data.batch_size=8",
       "error: data: unknown key 'batch_size'; recipes call it 'training.global_batch_size'"},
      {"learning_rate=0.1", "error: unknown key 'learning_rate'; recipes call it 'optimizer.lr'"},
      {"optimizer={learning_rate: 0.1}", "error: optimizer: unknown key 'learning_rate'; recipes call it "},
      {"optimizer={name: sgd, learning_rate: 0.1}",
       "unknown key 'learning_rate'; recipes call it 'optimizer.lr'"},
      {"criterion=cross_entropy", "error: unknown key 'criterion'; recipes call it 'loss'"},
      {"training.criterion=cross_entropy",
       "error: training: unknown key 'criterion'; recipes call it 'loss'"},
      {"data.type=idx", "error: data: unknown key 'type'; recipes call it 'data.format'"},
      {"optimizer={name: adam, momentum: 0.9}",
       "error: optimizer: unknown key 'momentum'; recipes call it 'optimizer.beta1'"},
      {"optimizer={name: adamw, betas: [0.9, 0.95]}",
       "unknown key 'betas'; recipes call it 'optimizer.beta1', such as 0.9, and optimizer.beta2"},
      {"lr_scheduler.warmup_ratio=0.1",
       "unknown key 'warmup_ratio'; recipes call it 'lr_scheduler.warmup', such as 500ba"},
      {"training.gradient_accumulation_steps=4",
       "recipes call it 'training.micro_batch_size', such as 8: steps are global_batch_size over it"},
      {"training.fp16=true", "recipes call it 'training.precision', such as amp_fp16"},
      // Values.
      {"device.type=gpu", "found 'gpu'; did you mean 'cuda'?"},
      {"lr_scheduler.name=cosine_annealing", "unknown name 'cosine_annealing'; did you mean 'cosine'?"},
      {"lr_scheduler.name=StepLR", "unknown name 'StepLR'; did you mean 'multi_step'?"},
      {"loss.name=ce", "unknown name 'ce'; did you mean 'cross_entropy'?"},
      {"training.precision=bf16", "found 'bf16'; did you mean 'amp_bf16'?"},
      {"training.precision=float32", "found 'float32'; did you mean 'fp32'?"},
      {"device=cuda", "device: expected a map of keys, found 'cuda'; did you mean device.type=cuda?"},
      {"device=gpu", "device: expected a map of keys, found 'gpu'; did you mean device.type=cuda?"},
      // What means nothing elsewhere gets no guess.
      {"loss.name=gpu", "unknown name 'gpu'; known: cross_entropy"},
      {"training.xyzzy=1", "unknown key 'xyzzy'; known keys: "}};
  for (const auto& [override, expected] : cases) {
    INFO(override);
    try {
      Recipe::load(path, {override});
      FAIL("loaded");
    } catch (const Error& error) {
      const std::string problems = error.what();
      INFO(problems);
      CHECK(problems.find(expected) != std::string::npos);
      CHECK(problems.ends_with("1 error, nothing was started"));
    }
  }
}

TEST_CASE("all errors of a recipe are reported at once, overrides included") {
  const std::string path = std::string(TRAINER_SOURCE_DIR) + "/configs/fashion_mnist_cnn.yaml";
  try {
    Recipe::load(path, {"optimizer.momentum=2", "trainign.max_duration=3ep", "data.workers=many"});
    FAIL("loaded");
  } catch (const Error& error) {
    const std::string problems = error.what();
    INFO(problems);
    CHECK(problems.find(
              "command line:1:11: error: optimizer.momentum: must be at least 0 and below 1, got 2") !=
          std::string::npos);
    CHECK(problems.find("command line:2:1: error: unknown key 'trainign'; did you mean 'training'?") !=
          std::string::npos);
    CHECK(problems.find("command line:3:6: error: data.workers: expected an integer or auto, found 'many'") !=
          std::string::npos);
    CHECK(problems.ends_with("3 errors, nothing was started"));
  }
}

}  // namespace trainer
