// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "core/base/regular_file.h"
#include "core/track/address.h"
#include "core/track/mlflow_sender.h"
#include "core/track/mlflow_state.h"
#include "core/track/pending_lines.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::contents;
using test::ScratchDirectory;

MetricsRecord training(int64_t step, double loss) {
  return {.step = step, .updates = step, .split = "train", .loss = loss, .lr = 0.5, .time = 12.5};
}

/// The steps of what is pending, all of which is accepted.
std::vector<int64_t> pending_steps(PendingLines& lines) {
  std::vector<int64_t> steps;
  for (;;) {
    const std::vector<PendingLines::Line> some = lines.next(4);
    if (some.empty()) return steps;
    for (const PendingLines::Line& line : some) steps.push_back(line.record.step);
    lines.accept();
  }
}

}  // namespace

TEST_CASE("an address has a scheme and a host, and neither a user nor a query") {
  CHECK(address_problem("http://localhost:5000").empty());
  CHECK(address_problem("https://mlflow.example.org/team/").empty());
  CHECK_THAT(address_problem("localhost:5000"), ContainsSubstring("begins with http:// or https://"));
  CHECK_THAT(address_problem("file:///mlruns"), ContainsSubstring("begins with http:// or https://"));
  CHECK_THAT(address_problem(""), ContainsSubstring("begins with http:// or https://"));
  CHECK_THAT(address_problem("http://"), ContainsSubstring("names no host"));
  CHECK_THAT(address_problem("http://:5000"), ContainsSubstring("names no host"));
  for (const char* uri : {"http://a/?x", "http://a b", "http://a\n", "http://a/\xc3\xa4", "http://a\\b"})
    CHECK_THAT(address_problem(uri), ContainsSubstring("has a character that none may have"));
  const std::string of_password = address_problem("http://anna:word@host");
  CHECK_THAT(of_password, ContainsSubstring("MLFLOW_TRACKING_PASSWORD"));
  CHECK(of_password.find("word@") == std::string::npos);
  CHECK(percent_encoded("a b/\xc3\xa4~1") == "a%20b%2F%C3%A4~1");
}

TEST_CASE("names and numbers as MLflow takes them") {
  CHECK(mlflow_name("model.layers[3].conv2d") == "model.layers.3.conv2d");
  CHECK(mlflow_name("train/top1 of \xc3\xa4:b") == "train/top1 of ___b");
  CHECK(mlflow_name(std::string(300, 'x')).size() == 250);
  MetricsRecord record = training(7, std::numeric_limits<double>::infinity());
  record.metrics = {{"top1", 0.25}, {"count", int64_t{3}}};
  const std::vector<Json> metrics = mlflow_metrics(record);
  REQUIRE(metrics.size() == 4);
  CHECK(metrics[0].dump() == R"({"key":"train/loss","value":"NaN","timestamp":12500,"step":7})");
  CHECK(metrics[1].dump() == R"({"key":"train/top1","value":0.25,"timestamp":12500,"step":7})");
  CHECK(metrics[2].dump() == R"({"key":"train/count","value":3.0,"timestamp":12500,"step":7})");
  CHECK(metrics[3].dump() == R"({"key":"train/lr","value":0.5,"timestamp":12500,"step":7})");
  record.time.reset();
  CHECK(mlflow_metrics(record)[0]["timestamp"].integer() == 1);
}

TEST_CASE("pending lines: each once while the file grows, those not accepted again") {
  const ScratchDirectory scratch;
  const std::filesystem::path path = scratch / "metrics.jsonl";
  PendingLines lines(path, [] { return std::unordered_set<int64_t>(); });
  CHECK(lines.next(4).empty());
  MetricsWriter writer(path);
  CHECK(lines.next(4).empty());
  for (int64_t step = 1; step <= 5; ++step) writer.append(training(step, 1));
  CHECK(lines.next(4).size() == 2);  // of two numbers each
  CHECK(lines.next(4).front().record.step == 1);
  CHECK(pending_steps(lines) == std::vector<int64_t>{1, 2, 3, 4, 5});
  writer.append(training(6, 1));
  CHECK(pending_steps(lines) == std::vector<int64_t>{6});
  test::put(path, contents(path) + "no record\n" + to_json(training(7, 1)));  // its end is not written yet
  CHECK(pending_steps(lines).empty());
  test::put(path, contents(path) + "\n");
  CHECK(pending_steps(lines) == std::vector<int64_t>{7});
}

TEST_CASE("pending lines: after a cut only steps with other results are sent again") {
  const ScratchDirectory scratch;
  const std::filesystem::path path = scratch / "metrics.jsonl";
  std::unordered_set<int64_t> sent;
  PendingLines lines(path, [&] { return sent; });
  const auto send = [&] {
    std::vector<int64_t> steps;
    for (const PendingLines::Line& line : lines.next(1000)) {
      sent.insert(line.form);
      steps.push_back(line.record.step);
    }
    lines.accept();
    return steps;
  };
  MetricsWriter(path).append(training(1, 0.5));
  for (int64_t step = 2; step <= 4; ++step) MetricsWriter(path).append(training(step, 0.25));
  CHECK(send() == std::vector<int64_t>{1, 2, 3, 4});
  cut_metrics(path, 2, 2);
  MetricsRecord same = training(3, 0.25);
  same.time = 99;  // later, and faster
  same.samples_per_s = 5;
  MetricsWriter(path).append(same);
  CHECK(send().empty());
  MetricsWriter(path).append(training(4, 0.75));  // resumed with other settings
  MetricsWriter(path).append(training(5, 0.75));
  CHECK(send() == std::vector<int64_t>{4, 5});
  // Another process finds the same.
  PendingLines again(path, [&] { return sent; });
  CHECK(again.next(1000).empty());
  CHECK(PendingLines(path, [] { return std::unordered_set<int64_t>(); }).next(1000).size() == 5);
}

TEST_CASE("a line longer than a block is pending too") {
  const ScratchDirectory scratch;
  const std::filesystem::path path = scratch / "metrics.jsonl";
  MetricsRecord record = training(1, 0.5);
  for (int i = 0; i < 30000; ++i)
    record.metrics.emplace_back("a_long_name_of_a_metric_" + std::to_string(i), 0.5);
  MetricsWriter(path).append(record);
  PendingLines lines(path, [] { return std::unordered_set<int64_t>(); });
  const std::vector<PendingLines::Line> some = lines.next(1000);
  REQUIRE(some.size() == 1);
  CHECK(some[0].record.metrics.size() == 30000);
}

TEST_CASE("the state of a tracker outlives its process, and a line cut by a kill") {
  const ScratchDirectory scratch;
  const std::filesystem::path run = scratch.path();
  std::string key;
  {
    MlflowState state(run, "http://a", "x");
    key = state.key();
    CHECK(key.size() == 32);
    CHECK(!state.run());
    CHECK_THROWS_WITH(MlflowState(run, "http://a", "x"), ContainsSubstring("another process sends"));
    state.note_run({"r1", "mlflow-artifacts:/1/r1/artifacts"});
    state.note_parameters();
    state.note_lines({1, -2});
    state.note_lines({int64_t{1} << 62});
    CHECK(state.being_sent().empty());
    state.note_being_sent(to_json(training(5, 0.1)) + "\n" + to_json(training(6, std::nan(""))) + "\n");
  }
  test::put(run / "mlflow.jsonl", contents(run / "mlflow.jsonl") + R"({"lines":[7,)");
  {
    MlflowState state(run, "http://a", "x");
    state.note_lines({8});
    REQUIRE(state.being_sent().size() == 2);
    CHECK(to_json(state.being_sent()[0]) == to_json(training(5, 0.1)));
    CHECK(std::isnan(state.being_sent()[1].loss));
    CHECK(state.key() == key);
    REQUIRE(state.run());
    CHECK(state.run()->id == "r1");
    CHECK(state.has_parameters());
    CHECK(state.sent_lines() == std::unordered_set<int64_t>{1, -2, int64_t{1} << 62, 8});
  }
  {
    MlflowState elsewhere(run, "http://b", "x");
    CHECK(elsewhere.key() == key);  // the same server may have another address
    CHECK(!elsewhere.run());
    CHECK(!elsewhere.has_parameters());
    CHECK(elsewhere.sent_lines().empty());
    CHECK(elsewhere.being_sent().empty());
  }
  std::filesystem::remove(run / "mlflow.jsonl");
  std::filesystem::create_symlink("elsewhere", run / "mlflow.jsonl");
  CHECK_THROWS_AS(MlflowState(run, "http://b", "x"), Error);
}

TEST_CASE("artifacts are sent only if the server itself stores them") {
  CHECK(MlflowServer::takes_files({"r", "mlflow-artifacts:/1/r/artifacts"}));
  for (const char* elsewhere : {"s3://bucket/1", "", "mlflow-artifacts://host:5000/1", "mlruns/1"})
    CHECK(!MlflowServer::takes_files({"r", elsewhere}));
}

}  // namespace trainer
