// SPDX-License-Identifier: Apache-2.0
// The job scripts that the program prints. tests/slurm runs one.
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Strings = std::vector<std::string>;

Outcome print_script(const Workspace& workspace, const Strings& options) {
  workspace.write("it's.yaml", kSmallRecipe);
  Strings words = {"slurm", "it's.yaml"};
  words.insert(words.end(), options.begin(), options.end());
  return run_trainer(words, workspace.path());
}

}  // namespace

TEST_CASE("a job script has its options, the recipe and its overrides, and is whole") {
  const Workspace workspace;
  const auto [options, lines, missing] = GENERATE(table<Strings, Strings, Strings>(
      {{{"--time", "90", "run.name=a b"},
        {"#SBATCH --nodes=1\n", "#SBATCH --ntasks-per-node=1\n", "#SBATCH --time=90\n",
         "#SBATCH --signal=B:USR1@180\n", "#SBATCH --job-name=a_b\n", "set -- 'run.name=a b' \"$@\"\n"},
        {"RANKS_BY", "RANK_OPTIONS=\"", "gpus", "partition", "TRAIN_ONE"}},
       {{"--nodes", "2", "--time", "10:00", "--partition", "long", "--mem", "64G"},
        {"#SBATCH --nodes=2\n", "#SBATCH --partition=long\n", "#SBATCH --mem=64G\n",
         "#SBATCH --signal=B:USR1@70\n", "RANKS_BY"},
        {"gpus", "TRAIN_ONE"}},
       {{"--nodes", "2", "--gpus-per-node", "4"},
        {"#SBATCH --gpus-per-node=4\n", "#SBATCH --ntasks-per-node=4\n", "--kill-on-bad-exit=1"},
        {"RANKS_BY", "TRAIN_ONE"}}}));
  const Outcome outcome = print_script(workspace, options);
  INFO(outcome.errors << outcome.output);
  CHECK(outcome.code == 0);
  for (const std::string& line : lines) CHECK_THAT(outcome.output, ContainsSubstring(line));
  for (const std::string& word : missing) CHECK_THAT(outcome.output, !ContainsSubstring(word));
  CHECK_THAT(outcome.output, ContainsSubstring("it'\\''s.yaml'}\n"));
  workspace.write("job", outcome.output);
  CHECK(run_shell("bash -n job", workspace.path()).code == 0);
  // What the shell takes for the recipe is its path, and the rest is words.
  CHECK(run_shell("sed -n '/^RECIPE=/p' job >line; . ./line; test \"$RECIPE\" = \"$PWD/it's.yaml\"",
                  workspace.path())
            .code == 0);
}

TEST_CASE("a job that cannot be is refused") {
  const Workspace workspace;
  const auto [options, code, told] = GENERATE(table<Strings, int, const char*>(
      {{{"--time", "soon"}, 64, "--time soon: expected a limit such as 4:00:00"},
       {{"--time", "0"}, 64, "--time 0"},
       {{"--time", "4:59"}, 64, "--time: a job needs at least 5 minutes"},
       {{"--partition", "a\n#SBATCH --nodes=9"}, 64, "--partition"},
       {{"--nodes", "7"}, 78, "cannot be shared by 7 ranks evenly"},
       {{"device.type=cuda"}, 78, "device.type: cuda needs GPUs in the job: give --gpus-per-node"}}));
  const Outcome outcome = print_script(workspace, options);
  CHECK(outcome.code == code);
  CHECK(outcome.output.empty());
  CHECK_THAT(outcome.errors, ContainsSubstring(told));
}

}  // namespace trainer
