// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

const char* const kTrain = "\"$TRAINER\" --config small.yaml training.max_duration=2ba run.output_dir=run";
/// Hides the machine's GPUs from CUDA.
const char* const kAllotted = "CUDA_VISIBLE_DEVICES=9999 SLURM_JOB_GPUS=0 ";

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

TEST_CASE("a run says first on which device it runs, and why") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome outcome = run_shell(kTrain, workspace.path());
  CHECK(outcome.code == 0);
  CHECK_THAT(first_line(outcome.errors),
             ContainsSubstring("device: cpu (device.type=auto: CUDA_VISIBLE_DEVICES= hides all GPUs)"));
}

TEST_CASE("a GPU that is allotted but cannot be used ends a run with 69 before anything is written") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome outcome = run_shell(std::string(kAllotted) + kTrain, workspace.path());
  CHECK(outcome.code == 69);
  CHECK_THAT(first_line(outcome.errors),
             ContainsSubstring("device: cuda (device.type=auto: SLURM_JOB_GPUS=0)"));
  CHECK_THAT(outcome.errors, ContainsSubstring("or write device.type=cpu"));
  CHECK(!std::filesystem::exists(workspace.path() / "run"));
  CHECK(run_shell(std::string(kAllotted) + kTrain + " device.type=cpu", workspace.path()).code == 0);
}

TEST_CASE("a run that was saved on the CPU resumes there beside a GPU") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  REQUIRE(run_shell(kTrain, workspace.path()).code == 0);
  const Outcome outcome =
      run_shell(std::string(kAllotted) + kTrain +
                    " training.max_duration=4ba run.allow_changes=[training.max_duration]",
                workspace.path());
  CHECK(outcome.code == 0);
  CHECK_THAT(first_line(outcome.errors),
             ContainsSubstring("device: cpu (device.type=auto: the checkpoint was made on it)"));
  CHECK_THAT(outcome.errors, ContainsSubstring("resuming after step 2"));
  const Outcome eval =
      run_shell(std::string(kAllotted) + "\"$TRAINER\" eval --config small.yaml run.output_dir=run " +
                    "training.max_duration=4ba",
                workspace.path());
  CHECK(eval.code == 0);
}

}  // namespace trainer
