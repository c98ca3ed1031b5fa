// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <nlohmann/json.hpp>

#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

constexpr const char* kMachine = R"({"name": "a pair", "device": "cpu", "devicesPerNode": 2,
  "withinNode": {"bytesPerSecond": 1e6, "latencySeconds": 1e-4},
  "sources": {"withinNode.bytesPerSecond": "test", "withinNode.latencySeconds": "test"}})";

class Planned {
 public:
  Planned() {
    workspace_.write("small.yaml", kSmallRecipe);
    workspace_.write("pair.json", kMachine);
  }
  Outcome run(std::vector<std::string> more) const {
    more.insert(more.begin(), {"plan", "--config", "small.yaml"});
    return run_trainer(more, workspace_.path());
  }
  Json rows(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Outcome outcome = run(more);
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.output);
  }
  const Workspace& workspace() const { return workspace_; }

 private:
  Workspace workspace_;
};

}  // namespace

TEST_CASE("plan --ranks: a row for each number, whose parts add up to its step") {
  const Planned planned;
  const Json rows = planned.rows({"--ranks", "1,2", "--machine", "pair.json", "--speed", "100"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["samples_per_second"].get<double>() == Approx(100));
  CHECK(rows[0]["efficiency"].get<double>() == Approx(1));
  const Json& two = rows[1];
  CHECK(two["global_batch_size"] == 64);
  CHECK(two["micro_batch_size"] == 32);
  CHECK(two["seconds"].get<double>() ==
        Approx(two["computing_seconds"].get<double>() + two["exposed_seconds"].get<double>() +
               two["slowest_rank_seconds"].get<double>()));
  CHECK(two["efficiency"].get<double>() == Approx(two["samples_per_second"].get<double>() / 200));
  CHECK(two["slowest_rank_seconds"].get<double>() > 0);
  CHECK(two["communication_seconds"].get<double>() > 0);
  CHECK(two["peak_bytes"].get<int64_t>() < rows[0]["peak_bytes"].get<int64_t>() * 2);
  const Json weak = planned.rows({"--ranks", "2", "--machine", "pair.json", "--speed", "100", "--weak"});
  CHECK(weak[0]["global_batch_size"] == 128);
  CHECK(weak[0]["micro_batch_size"] == 64);
  CHECK(weak[0]["efficiency"] > two["efficiency"]);
  const Outcome text = planned.run({"--ranks", "2", "--machine", "pair.json", "--speed", "100"});
  CHECK_THAT(text.output, ContainsSubstring("a pair") &&
                              ContainsSubstring("from 100 samples/s of one device") &&
                              ContainsSubstring("which no run has measured"));
}

TEST_CASE("plan --ranks: a number that cannot share the batch has a row with the reason") {
  const Planned planned;
  const Json rows = planned.rows({"--ranks", "2,3", "--machine", "dgx_2", "--speed", "100"});
  CHECK_FALSE(rows[0].contains("problem"));
  CHECK_THAT(rows[1]["problem"].get<std::string>(), ContainsSubstring("cannot be shared by 3 ranks evenly"));
  const Json too_many = planned.rows({"--ranks", "4", "--machine", "pair.json", "--speed", "100"});
  CHECK_THAT(too_many[0]["problem"].get<std::string>(), ContainsSubstring("a pair has 2 devices"));
  const Outcome text = planned.run({"--ranks", "3", "--machine", "dgx_2", "--speed", "100"});
  CHECK(text.code == 0);
  CHECK_THAT(text.output, ContainsSubstring("cannot be shared by 3 ranks evenly"));
}

TEST_CASE("plan --machine: what is wrong is named with its remedy") {
  const Planned planned;
  const auto problem = [&](const std::vector<std::string>& more, int code) {
    const Outcome outcome = planned.run(more);
    CHECK(outcome.code == code);
    return outcome.errors;
  };
  CHECK_THAT(problem({"--ranks", "2", "--machine", "dgx_h300"}, 78),
             ContainsSubstring("unknown machine 'dgx_h300': choose ") && ContainsSubstring("dgx_h100"));
  planned.workspace().write("half.json", R"({"name": "x", "device": "cpu", "devicesPerNode": 2})");
  CHECK_THAT(problem({"--ranks", "2", "--machine", "half.json"}, 78),
             ContainsSubstring("half.json: withinNode: expected"));
  CHECK_THAT(problem({"--ranks", "2", "--machine", "pair.json"}, 78),
             ContainsSubstring("--measured RUN") && ContainsSubstring("--speed"));
  CHECK_THAT(problem({"--ranks", "two", "--machine", "pair.json"}, 64), ContainsSubstring("got 'two'"));
  CHECK_THAT(problem({"--ranks", "2"}, 64), ContainsSubstring("--machine"));
  CHECK_THAT(problem({"--measured", "run"}, 64), ContainsSubstring("--measured needs --devices or --ranks"));
  CHECK_THAT(problem({"--ranks", "2", "--machine", "pair.json", "--measured", "nowhere"}, 74),
             ContainsSubstring("nowhere/trace.json"));
}

TEST_CASE("plan --ranks takes a profile's operations and the spread of the run's steps") {
  const Planned planned;
  const Outcome trained =
      run_trainer({"--config", "small.yaml", "--profile", "1", "run.output_dir=run", "device.threads=1",
                   "training.global_batch_size=32", "training.max_duration=30ba"},
                  planned.workspace().path());
  INFO(trained.errors);
  REQUIRE(trained.code == 0);
  const Json trace = Json::parse(planned.workspace().read("run/trace.json"));
  double seconds = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] == 2) seconds += event["dur"].get<double>() / 1e6;
  }
  REQUIRE(seconds > 0);
  const std::vector<std::string> words{"--ranks", "1,2", "--machine", "pair.json", "--measured", "run"};
  std::vector<std::string> same = words;
  same.emplace_back("training.global_batch_size=32");
  CHECK(planned.rows(same)[0]["computing_seconds"].get<double>() == Approx(seconds));
  const Outcome text = planned.run(words);
  CHECK_THAT(text.output, ContainsSubstring("as measured in run") && ContainsSubstring("%, as measured."));
  CHECK_FALSE(planned.rows(same)[0].contains("unmeasured_operations"));
  std::vector<std::string> other = same;
  other.emplace_back("optimizer={name: adamw}");
  CHECK(planned.rows(other)[0]["unmeasured_operations"].get<int>() > 0);
  CHECK_THAT(planned.run(other).output, ContainsSubstring("are not in the profile"));
}

TEST_CASE("plan --splits lists divisions that fit, the fastest first") {
  const Planned planned;
  const Json rows = planned.rows({"--ranks", "4", "--splits", "--machine", "dgx_2", "--speed", "100"});
  REQUIRE(rows.size() > 4);
  double last = 0;
  bool has_sharded = false, has_pipeline = false;
  for (const Json& row : rows) {
    CHECK(row["ranks"] == 4);
    CHECK(row["data"].get<int>() * row["tensor"].get<int>() * row["pipeline"].get<int>() == 4);
    has_sharded = has_sharded || row["shard_parameters"] == "true";
    has_pipeline = has_pipeline || row["pipeline"] == 2;
    if (row.contains("problem") || !row["fits"].get<bool>()) continue;
    CHECK(row["seconds"].get<double>() >= last);
    last = row["seconds"].get<double>();
  }
  CHECK(has_sharded);
  CHECK(has_pipeline);
}

TEST_CASE("doctor --links measures between ranks alone") {
  const Workspace workspace;
  const Outcome alone = run_trainer({"doctor", "--links", "here.json"}, workspace.path());
  CHECK(alone.code == 64);
  CHECK_THAT(alone.errors, ContainsSubstring("mpirun -n 2 trainer doctor --links here.json"));
  if (!has_mpi()) return;
  const Outcome measured = run_ranks(under_mpirun(2, "doctor --links here.json"), workspace.path());
  INFO(measured.errors);
  REQUIRE(measured.code == 0);
  const Json machine = Json::parse(workspace.read("here.json"));
  CHECK(machine["devicesPerNode"] == 2);
  CHECK(machine["withinNode"]["bytesPerSecond"].get<double>() > 1e6);
  workspace.write("small.yaml", kSmallRecipe);
  const Outcome planned = run_trainer(
      {"plan", "--config", "small.yaml", "--ranks", "2", "--machine", "here.json", "--speed", "100"},
      workspace.path());
  INFO(planned.errors);
  CHECK(planned.code == 0);
}

}  // namespace trainer
