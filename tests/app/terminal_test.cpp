// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

/// Runs the program in a pseudo-terminal of this width.
Outcome run_in_terminal(const std::string& arguments, size_t columns, const Workspace& workspace) {
  return run_shell(
      fmt::format("TERM=xterm script -qec 'stty cols {} rows 50; \"$TRAINER\" {}' /dev/null </dev/null",
                  columns, arguments),
      workspace.path());
}

/// What a terminal showed, a text for each state of a line; without the commands that move its cursor.
std::vector<std::string> shown(const std::string& output) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < output.size(); ++i) {
    const auto byte = static_cast<unsigned char>(output[i]);
    if (output[i] == '\n' || output[i] == '\r') {
      lines.emplace_back();
    } else if (output[i] == '\x1b') {
      while (i + 1 < output.size() && std::isalpha(static_cast<unsigned char>(output[i])) == 0) ++i;
    } else if ((byte & 0xC0) != 0x80) {
      lines.back() += byte < 0x80 ? output[i] : '#';  // one column for each character
    }
  }
  std::erase(lines, "");
  return lines;
}

std::vector<std::string> lines_with(const std::vector<std::string>& lines, const std::string& part) {
  std::vector<std::string> found;
  for (const std::string& line : lines)
    if (line.find(part) != std::string::npos) found.push_back(line);
  return found;
}

/// The lines of a command that ends with 0; none is wider than the terminal.
std::vector<std::string> fitting_lines(const std::string& arguments, size_t columns,
                                       const Workspace& workspace) {
  const Outcome outcome = run_in_terminal(arguments, columns, workspace);
  INFO(arguments << "\n" << outcome.output);
  CHECK(outcome.code == 0);
  const std::vector<std::string> lines = shown(outcome.output);
  for (const std::string& line : lines) CHECK(line.size() <= columns);
  return lines;
}

}  // namespace

TEST_CASE("tables and curves of runs fit the terminal's width, and a wide one has more columns") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  for (const std::string rate : {"0.1", "0.02", "0.03"})
    REQUIRE(run_trainer({"small.yaml", "run.output_dir=runs/a-rather-long-name-that-ends-in-" + rate,
                         "optimizer.lr=" + rate, "training.max_duration=20ba"},
                        workspace.path())
                .code == 0);
  for (const size_t columns : {80, 200}) {
    INFO(columns);
    const std::vector<std::string> listed = fitting_lines("runs", columns, workspace);
    REQUIRE(listed.size() == 4);
    CHECK(listed[0].find("  lr  ") != std::string::npos);
    CHECK((listed[0].find("samples/s") != std::string::npos) == (columns == 200));
    const auto compared = fitting_lines("runs compare runs/*0.1 runs/*0.02 runs/*0.03", columns, workspace);
    CHECK(lines_with(compared, "optimizer.lr").size() == 1);
    CHECK(lines_with(compared, "in-0.02").size() == 1);
    const auto watched = fitting_lines("watch runs/*0.1", columns, workspace);
    CHECK(lines_with(watched, "training loss, and o: validation loss").size() == 1);
    CHECK(lines_with(watched, " step 0 ").size() == 2);
  }
}

TEST_CASE("the changing line of a run fits the terminal's width, and lines of validation stand in columns") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  for (const size_t columns : {80, 200}) {
    INFO(columns);
    const Outcome trained = run_in_terminal(
        fmt::format("small.yaml run.output_dir=run{} training.max_duration=12ba validation.interval=4ba",
                    columns),
        columns, workspace);
    INFO(trained.output);
    REQUIRE(trained.code == 0);
    const std::vector<std::string> changing = lines_with(shown(trained.output), " eta ");
    REQUIRE(!changing.empty());
    for (const std::string& line : changing) {
      CHECK(line.size() < columns);
      for (const char* part : {"step ", "/12", "epoch ", "loss ", "lr "})
        CHECK(line.find(part) != std::string::npos);
      CHECK((line.find("  [") != std::string::npos || columns == 80));
    }
    const std::vector<std::string> validations = lines_with(shown(trained.output), ": validation loss ");
    REQUIRE(validations.size() == 3);
    CHECK(validations[0].starts_with("step  4 epoch 0.40: validation loss "));
    CHECK(validations[0].ends_with("  best"));
    CHECK(validations[2].starts_with("step 12 epoch 1.20: validation loss "));
    CHECK(validations[0].find(" top1 ") == validations[2].find(" top1 "));
  }
}

TEST_CASE("a line of validation ends with best where it is better than all before, equal ones do not") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome trained = run_trainer(
      {"small.yaml", "run.output_dir=run", "training.max_duration=60ba", "validation.interval=2ba"},
      workspace.path());
  REQUIRE(trained.code == 0);
  double best = -1;
  size_t count = 0, equal = 0;
  const std::vector<std::string> lines = lines_with(lines_of(trained.errors), ": validation loss ");
  REQUIRE(lines.size() == 30);
  for (const std::string& record : lines_with(lines_of(workspace.read("run/metrics.jsonl")), "validation")) {
    const double top1 = nlohmann::json::parse(record).at("top1").get<double>();
    INFO(lines[count]);
    CHECK(lines[count++].ends_with("  best") == (top1 > best));
    equal += top1 == best ? 1 : 0;
    best = std::max(best, top1);
  }
  CHECK(equal > 0);
}

TEST_CASE("layers NAME prints one of them with its keys") {
  const Workspace workspace;
  const Outcome one = run_trainer({"layers", "conv2d"}, workspace.path());
  REQUIRE(one.code == 0);
  CHECK(one.output.starts_with("\nLayers (model.layers)\n  conv2d "));
  CHECK(one.output.find("\n    kernel_size ") != std::string::npos);
  CHECK(one.output.find("max_pool2d") == std::string::npos);
  CHECK(run_trainer({"layers", "adamw"}, workspace.path()).output.find("weight_decay") != std::string::npos);
  CHECK(run_trainer({"layers", "top5"}, workspace.path()).output.find("Metrics") != std::string::npos);
  const Outcome unknown = run_trainer({"layers", "conv2"}, workspace.path());
  CHECK(unknown.code == 64);
  CHECK(unknown.errors ==
        "trainer: error: conv2: no layer, loss, optimiser, schedule, transform or metric; did you mean "
        "'conv2d'?\n");
}

}  // namespace trainer
