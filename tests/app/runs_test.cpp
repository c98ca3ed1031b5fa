// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

/// A run of which only what it says of itself is there.
void put_run(const Workspace& workspace, const std::string& name, const std::string& status) {
  workspace.write("runs/" + name + "/status.json", status);
}

std::string status(const std::string& state, int step, const std::string& message = "") {
  return R"({"status":")" + state + R"(","step":)" + std::to_string(step) +
         R"(,"steps":1000000000,"pid":1,"host":"h","updated":1700000000,"exit_code":70,"message":")" +
         message + R"("})";
}

}  // namespace

TEST_CASE("runs lists what was trained, with the numbers of its metrics") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome trained = run_trainer(
      {"-c", "small.yaml", "run.output_dir=runs/a", "training.max_duration=12ba"}, workspace.path());
  REQUIRE(trained.code == 0);
  const std::string metrics = workspace.read("runs/a/metrics.jsonl");
  double best = 0;
  for (const std::string& line : lines_of(metrics)) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("split") == "validation") best = std::max(best, record.at("top1").get<double>());
  }
  const Outcome listed = run_trainer({"runs", "--json"}, workspace.path());
  REQUIRE(listed.code == 0);
  const auto runs = nlohmann::json::parse(listed.output);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].at("name") == "a");
  CHECK(runs[0].at("state") == "finished");
  CHECK(runs[0].at("step") == 12);
  CHECK(runs[0].at("steps") == 12);
  CHECK(runs[0].at("best") == nlohmann::json{{"metric", "top1"}, {"value", best}});
  CHECK(runs[0].at("loss") == losses_in(metrics, "train").back());
  CHECK(runs[0].at("samples_per_s") > 0);
  const Outcome table = run_trainer({"runs", "runs/a"}, workspace.path());
  CHECK(table.code == 0);
  REQUIRE(lines_of(table.output).size() == 2);
  CHECK(lines_of(table.output)[1].find("finished  12/12  top1 ") != std::string::npos);
}

TEST_CASE("the table of runs fits 100 columns and holds nothing that a terminal obeys") {
  const Workspace workspace;
  put_run(workspace, std::string(120, 'n') + "-tail", status("saved", 999999999));
  put_run(workspace, "bad\x1b[2J",
          status("failed", 1, "first \\u001b[2J" + std::string(200, 'm') + "\\nsecond"));
  const Outcome table = run_trainer({"runs", "runs"}, workspace.path());
  REQUIRE(table.code == 0);
  const std::vector<std::string> lines = lines_of(table.output);
  REQUIRE(lines.size() == 4);
  for (const std::string& line : lines) CHECK(line.size() <= 100);
  CHECK(lines[1].starts_with("bad?[2J "));
  CHECK(lines[2].find("...nn") == 0);
  CHECK(lines[2].find("nn-tail  saved ") != std::string::npos);
  CHECK(lines[2].find("999999999/1000000000") != std::string::npos);
  CHECK(lines[3].starts_with("bad?[2J: first ?[2Jmmm"));
  CHECK(lines[3].ends_with("mmm..."));
}

TEST_CASE("runs of a directory without any, or that is not there") {
  const Workspace workspace;
  workspace.write("empty/file", "");
  const Outcome none = run_trainer({"runs", "empty"}, workspace.path());
  CHECK(none.code == 0);
  CHECK(none.output == "no runs below empty\n");
  CHECK(run_trainer({"runs", "empty", "--json"}, workspace.path()).output == "[]\n");
  const Outcome absent = run_trainer({"runs"}, workspace.path());
  CHECK(absent.code == 74);
  CHECK(absent.errors == "trainer: error: runs: opening the directory: No such file or directory\n");
}

}  // namespace trainer
