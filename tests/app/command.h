// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainer {

/// The output and exit code of one call of the program.
struct Outcome {
  int code = 0;
  std::string output;  ///< standard output
  std::string errors;  ///< standard error
};

/// Runs the built program with these arguments, in `directory`.
Outcome run_trainer(const std::vector<std::string>& arguments, const std::filesystem::path& directory);

/// Runs a line of shell, with the program's path in $TRAINER.
Outcome run_shell(const std::string& line, const std::filesystem::path& directory);

/// Whether the program can start several ranks.
bool has_mpi();

/// A line of shell that starts ranks.
Outcome run_ranks(const std::string& line, const std::filesystem::path& directory);

/// The command line for ranks of a command that does not start them itself.
std::string under_mpirun(int ranks, const std::string& words);

/// A directory of its own for one test, removed at the end.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

/// The output of `trainer plan --json` for a recipe and overrides; fails the test if it is refused.
std::string plan_text(const Workspace& workspace, const std::vector<std::string>& arguments);

/// Whether the program has its library for GPUs, which planning for one needs.
bool has_cuda();

/// The directory of the shipped recipes, with a slash at its end.
inline const std::string kConfigs = std::string(TRAINER_SOURCE_DIR) + "/configs/";

/// A recipe of a small network with dropout on synthetic images, 10 steps an epoch.
extern const char* const kSmallRecipe;

std::vector<std::string> lines_of(const std::string& text);

/// The `loss` of each line of metrics.jsonl of this split.
std::vector<double> losses_in(const std::string& metrics, const std::string& split);

}  // namespace trainer
