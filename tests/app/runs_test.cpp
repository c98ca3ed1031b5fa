// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

/// A run with no other file than its own status.
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
  int64_t step = 0;
  for (const std::string& line : lines_of(metrics)) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("split") != "validation" || record.at("top1").get<double>() <= best) continue;
    best = record.at("top1").get<double>();
    step = record.at("step").get<int64_t>();
  }
  const Outcome listed = run_trainer({"runs", "--json"}, workspace.path());
  REQUIRE(listed.code == 0);
  const auto runs = nlohmann::json::parse(listed.output);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].at("name") == "a");
  CHECK(runs[0].at("state") == "finished");
  CHECK(runs[0].at("step") == 12);
  CHECK(runs[0].at("steps") == 12);
  CHECK(runs[0].at("best") == nlohmann::json{{"metric", "top1"}, {"value", best}, {"step", step}});
  CHECK(runs[0].at("loss") == losses_in(metrics, "train").back());
  CHECK(runs[0].at("samples_per_s") > 0);
  const Outcome table = run_trainer({"runs", "runs/a"}, workspace.path());
  CHECK(table.code == 0);
  REQUIRE(lines_of(table.output).size() == 2);
  CHECK(lines_of(table.output)[1].find("finished  12/12  top1 ") != std::string::npos);
  CHECK(lines_of(table.output)[1].find(" at " + std::to_string(step)) != std::string::npos);
  const auto summary = nlohmann::json::parse(workspace.read("runs/a/summary.json"));
  CHECK(summary.at("best") == nlohmann::json{{"metric", "top1"}, {"value", best}, {"step", step}});
  const Outcome inspected = run_trainer({"inspect", "runs/a"}, workspace.path());
  CHECK(inspected.output.find("intact, best\n") != std::string::npos);
  const Outcome evaluated = run_trainer(
      {"eval", "--json", "-c", "small.yaml", "run.resume=runs/a/model_best.safetensors"}, workspace.path());
  CHECK(nlohmann::json::parse(evaluated.output).at("top1") == best);
}

TEST_CASE("a run ends with the commands that use it, and they work") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome trained = run_trainer(
      {"-c", "small.yaml", "run.output_dir=it's a run", "training.max_duration=12ba"}, workspace.path());
  REQUIRE(trained.code == 0);
  CHECK(trained.errors.find("best weights: it's a run/model_best.safetensors") != std::string::npos);
  int64_t commands = 0;
  for (const std::string& line : lines_of(trained.errors)) {
    const size_t begin = line.find("  trainer ");
    if (begin == std::string::npos) continue;
    ++commands;
    std::string words = line.substr(begin + std::string("  trainer").size());
    if (words.ends_with(" IMAGES")) words.resize(words.size() - std::string(" IMAGES").size());
    INFO(words);
    CHECK(run_shell("\"$TRAINER\"" + words, workspace.path()).code == 0);
  }
  CHECK(commands == 3);
  const Outcome final = run_trainer(
      {"-c", "small.yaml", "run.output_dir=b", "training.max_duration=12ba", "checkpoint.keep_best=none"},
      workspace.path());
  CHECK(final.errors.find("final weights: b/model.safetensors") != std::string::npos);
}

TEST_CASE("the table of runs fits 100 columns and holds nothing that a terminal obeys") {
  const Workspace workspace;
  put_run(workspace, std::string(120, 'n') + "-tail", status("saved", 999999999));
  put_run(workspace, "bad\x1b[2J",
          status("failed", 1, "first \\u001b[2J" + std::string(200, 'm') + "\\nsecond"));
  const Outcome table = run_trainer({"runs", "runs", "--sort", "run"}, workspace.path());
  REQUIRE(table.code == 0);
  const std::vector<std::string> lines = lines_of(table.output);
  REQUIRE(lines.size() == 4);
  for (const std::string& line : lines) CHECK(line.size() <= 100);
  CHECK(lines[1].starts_with("bad\\x1b[2J "));
  CHECK(lines[2].find("...nn") == 0);
  CHECK(lines[2].find("nn-tail  saved ") != std::string::npos);
  CHECK(lines[2].find("999999999/1000000000") != std::string::npos);
  CHECK(lines[3].starts_with("bad\\x1b[2J: first \\x1b[2Jmmm"));
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

TEST_CASE("runs shows the keys in which its rows differ, and sorts by them") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const auto train = [&](const std::string& name, const std::string& rate, const std::string& duration) {
    const Outcome trained = run_trainer({"small.yaml", "run.output_dir=runs/" + name, "optimizer.lr=" + rate,
                                         "training.max_duration=" + duration},
                                        workspace.path());
    REQUIRE(trained.code == 0);
  };
  train("a", "0.1", "4ba");
  train("b", "0.02", "12ba");
  train("c", "9e-3", "4ba");
  put_run(workspace, "without-recipe", status("saved", 1));

  const Outcome table = run_trainer({"runs", "--sort", "run"}, workspace.path());
  REQUIRE(table.code == 0);
  const std::vector<std::string> lines = lines_of(table.output);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].find("state") < lines[0].find("  lr  max_duration  "));
  CHECK(lines[1].find("finished   0.1           4ba  ") != std::string::npos);
  CHECK(lines[4].find("saved        -             -  1/1000000000  ") != std::string::npos);

  const auto order = [&](const std::string& key) {
    const Outcome sorted = run_trainer({"runs", "--json", "--sort", key}, workspace.path());
    REQUIRE(sorted.code == 0);
    std::string names;
    for (const auto& run : nlohmann::json::parse(sorted.output))
      names += run.at("name").get<std::string>()[0];
    return names;
  };
  CHECK(order("lr") == "cbaw");
  CHECK(order("optimizer.lr") == "cbaw");
  CHECK(order("max_duration") == "acbw");  // 4ba before 12ba
  CHECK(order("step") == "wacb");
  const auto runs =
      nlohmann::json::parse(run_trainer({"runs", "--json", "--sort", "run"}, workspace.path()).output);
  CHECK(runs[1].at("settings") == nlohmann::json{{"optimizer.lr", 0.02}, {"training.max_duration", "12ba"}});

  const Outcome unknown = run_trainer({"runs", "--sort", "max_duratoin"}, workspace.path());
  CHECK(unknown.code == 64);
  CHECK(unknown.errors.find("did you mean 'max_duration'?") != std::string::npos);
  const Outcome two = run_trainer({"runs", "--sort", "name"}, workspace.path());
  CHECK(two.code == 64);
  CHECK(two.errors.find("more than one key ends so: ") != std::string::npos);
}

TEST_CASE("the best run comes first, whichever direction its metric has") {
  const Workspace workspace;
  const auto put = [&](const std::string& name, const std::string& metrics) {
    put_run(workspace, name, status("finished", 1));
    workspace.write("runs/" + name + "/metrics.jsonl",
                    R"({"step":1,"updates":1,"epoch":1,"split":"validation","loss":1,)" + metrics + "}\n");
  };
  put("a", R"("top1":0.5)");
  put("b", R"("top1":0.75)");
  put_run(workspace, "c", status("saved", 1));
  const Outcome sorted = run_trainer({"runs", "--sort", "best"}, workspace.path());
  REQUIRE(sorted.code == 0);
  const std::vector<std::string> lines = lines_of(sorted.output);
  REQUIRE(lines.size() == 4);
  CHECK(lines[1][0] == 'b');
  CHECK(lines[2][0] == 'a');
  CHECK(lines[3][0] == 'c');
}

TEST_CASE("runs compare prints what differs between two runs, and their validation at the same steps") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  for (const std::string rate : {"0.1", "0.02"}) {
    REQUIRE(run_trainer({"small.yaml", "run.output_dir=" + rate, "optimizer.lr=" + rate,
                         "training.max_duration=20ba"},
                        workspace.path())
                .code == 0);
  }
  const Outcome compared = run_trainer({"runs", "compare", "0.1", "0.02"}, workspace.path());
  REQUIRE(compared.code == 0);
  CHECK(compared.output.find("\nsettings that differ\n  optimizer.lr") != std::string::npos);
  CHECK(compared.output.find("\n  top1 at epoch 2 ") != std::string::npos);
  CHECK(compared.output.find("run.output_dir") == std::string::npos);
  const Outcome all = run_trainer({"runs", "compare", "0.1", "0.02", "--all"}, workspace.path());
  CHECK(all.output.find("\n  run.seed ") != std::string::npos);

  const auto json = nlohmann::json::parse(
      run_trainer({"runs", "compare", "0.1", "0.02", "--json"}, workspace.path()).output);
  CHECK(json.at("settings") == nlohmann::json{{"optimizer.lr", {0.1, 0.02}}});
  REQUIRE(json.at("validation")[1].size() == 2);
  const auto summary = nlohmann::json::parse(workspace.read("0.02/summary.json"));
  CHECK(json.at("validation")[1][1].at("top1") == summary.at("validation").at("last").at("top1"));

  const Outcome same = run_trainer({"runs", "compare", "0.1", "0.1"}, workspace.path());
  CHECK(same.output.find("\nno settings differ\n") != std::string::npos);
  const Outcome absent = run_trainer({"runs", "compare", "0.1", "0.3"}, workspace.path());
  CHECK(absent.code == 64);
  CHECK(absent.errors == "trainer: error: 0.3: not a run's directory; `trainer runs` lists them\n");
}

TEST_CASE("the newest run comes first") {
  const Workspace workspace;
  const auto put = [&](const std::string& name, const std::string& updated) {
    std::string text = status("saved", 1);
    put_run(workspace, name, text.replace(text.find("1700000000"), 10, updated));
  };
  put("a", "1700000001"), put("b", "1700000003"), put("c", "1700000002");
  const std::vector<std::string> lines = lines_of(run_trainer({"runs"}, workspace.path()).output);
  REQUIRE(lines.size() == 4);
  CHECK(std::string() + lines[1][0] + lines[2][0] + lines[3][0] == "bca");
}

TEST_CASE("several runs are compared, with a column each") {
  const Workspace workspace;
  for (const std::string name : {"a", "b", "c"}) {
    put_run(workspace, name, status("finished", 1));
    workspace.write("runs/" + name + "/recipe.yaml", "version: 1\noptimizer: {lr: 0." + name + "}\n");
    workspace.write("runs/" + name + "/metrics.jsonl",
                    R"({"step":1,"updates":1,"epoch":1,"split":"validation","loss":1,"top1":0.5,")" + name +
                        "\":0.25}\n");
  }
  const Outcome compared = run_trainer({"runs", "compare", "runs/a", "runs/b", "runs/c"}, workspace.path());
  REQUIRE(compared.code == 0);
  CHECK(compared.output.find("\n  optimizer.lr     0.a           0.b           0.c\n") != std::string::npos);
  CHECK(compared.output.find("\n  best top1        0.5000        0.5000        0.5000\n") !=
        std::string::npos);
  CHECK(compared.output.find("\n  b at epoch 1     -             0.2500        -\n") != std::string::npos);
  const auto json = nlohmann::json::parse(
      run_trainer({"runs", "compare", "runs/a", "runs/b", "runs/c", "--json"}, workspace.path()).output);
  CHECK(json.at("settings") == nlohmann::json{{"optimizer.lr", {"0.a", "0.b", "0.c"}}});
  CHECK(json.at("runs").size() == 3);
  CHECK(run_trainer({"runs", "compare", "runs/a"}, workspace.path()).code == 64);
}

TEST_CASE("lr, batch and network stand before the keys of the machine") {
  const Workspace workspace;
  for (const std::string name : {"1", "2"}) {
    put_run(workspace, name, status("finished", 1));
    workspace.write("runs/" + name + "/recipe.yaml",
                    "data: {workers: " + name + "}\ndevice: {threads: " + name + "}\nmodel: {input_kind: k" +
                        name + "}\noptimizer: {lr: 0." + name + "}\ntraining: {global_batch_size: " + name +
                        "}\n");
  }
  const std::vector<std::string> lines = lines_of(run_trainer({"runs"}, workspace.path()).output);
  REQUIRE(lines.size() >= 3);
  CHECK(lines[0].find("  lr  global_batch_size  input_kind  ") != std::string::npos);
}

}  // namespace trainer
