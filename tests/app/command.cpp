// SPDX-License-Identifier: Apache-2.0
#include "tests/app/command.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

const char* const kSmallRecipe = R"(version: 1
run: {name: small, seed: 3}
model:
  input: [1, 12, 12]
  layers:
    - conv2d: {out_channels: 8, kernel_size: 3, name: conv1}
    - relu
    - max_pool2d: 2
    - flatten
    - dropout: 0.25
    - linear: {out_features: 32, name: fc1}
    - tanh
    - linear: {out_features: 5, name: fc2}
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 2ep, global_batch_size: 64}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9, clip_norm: 5.0}
validation: {metrics: [top1, top5]}
logging: {interval: 1ba}
)";

bool has_cuda() {
  return fs::exists(fs::path(TRAINER_BINARY).parent_path() / "libtrainer_cuda.so");
}

Outcome run_shell(const std::string& line, const fs::path& directory) {
  const fs::path out = directory / ".stdout", err = directory / ".stderr";
  const std::string command = "cd " + quoted(directory.string()) +
                              " && export CUDA_VISIBLE_DEVICES= TRAINER=" + quoted(TRAINER_BINARY) +
                              " && { " + line + " ; } >" + quoted(out.string()) + " 2>" +
                              quoted(err.string());
  const int status = std::system(command.c_str());
  Outcome outcome{.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                  .output = content_of(out),
                  .errors = content_of(err)};
  fs::remove(out);
  fs::remove(err);
  return outcome;
}

Outcome run_trainer(const std::vector<std::string>& arguments, const fs::path& directory) {
  std::string line = "\"$TRAINER\"";
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  return run_shell(line, directory);
}

Workspace::Workspace() {
  std::string pattern = (fs::temp_directory_path() / "trainer-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a directory for a test");
  path_ = pattern;
}

Workspace::~Workspace() {
  fs::remove_all(path_);
}

bool has_mpi() {
  return fs::exists(fs::path(TRAINER_BINARY).parent_path() / "libtrainer_mpi_openmpi.so");
}

/// Open MPI leaves memory allocated in modules that are unloaded when a sanitizer looks.
Outcome run_ranks(const std::string& line, const fs::path& directory) {
  return run_shell("export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0\n" + line, directory);
}

std::string under_mpirun(int ranks, const std::string& words) {
  return fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n {} "
      "\"$TRAINER\" {}",
      ranks, words);
}

std::string Workspace::read(const std::string& name) const {
  return content_of(path_ / name);
}

void Workspace::write(const std::string& name, const std::string& text) const {
  fs::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name) << text;
}

std::string plan_text(const Workspace& workspace, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"plan", "--json", "--config"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Outcome outcome = run_trainer(words, workspace.path());
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  return outcome.output;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<double> losses_in(const std::string& metrics, const std::string& split) {
  std::vector<double> losses;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("split") == split) losses.push_back(record.at("loss"));
  }
  return losses;
}

}  // namespace trainer
