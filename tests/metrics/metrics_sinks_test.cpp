// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/metrics_sinks.h"

#include <cmath>
#include <ctime>

#include "tests/metrics/tensorboard.h"
#include "tests/storage/file_size_limit.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using test::contents;
using test::put;
using test::ScratchDirectory;

const std::vector<std::string> kBoth = {kTensorboard, kCsv};

MetricsRecord training(int64_t step) {
  return {.step = step, .updates = step, .epoch = 0.5, .split = "train", .loss = 0.1, .lr = 0.2, .time = 1e9};
}

MetricsRecord validation(int64_t step) {
  return {
      .step = step, .epoch = 1, .split = "validation", .loss = 1, .metrics = {{"top1", 0.5}}, .time = 1e9};
}

/// The table without the columns that are empty in these tests.
std::string short_table(const ScratchDirectory& scratch) {
  std::string text = contents(scratch / "metrics.csv");
  const std::string all =
      "lr,grad_norm,samples_per_s,tokens_per_s,data_wait_ms,forward_ms,backward_ms,update_ms,memory_bytes,"
      "loss_scale,"
      "skipped,event,"
      "reason,"
      "in_a_row,time";
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
  };
  replace(all, "lr,…,time");
  replace(",,,,,,,,,,,,,,1000000000", ",…,1000000000");
  return text;
}

}  // namespace

TEST_CASE("sinks: one record goes into each file; the table's head is there from the start") {
  const ScratchDirectory scratch;
  MetricsSinks sinks(scratch.path(), kBoth, {"top1"});
  CHECK(short_table(scratch) == "step,updates,epoch,split,loss,top1,lr,…,time\n");
  CHECK(contents(scratch / "metrics.jsonl").empty());
  sinks.append(training(1));
  sinks.append(validation(1));
  CHECK(short_table(scratch) ==
        "step,updates,epoch,split,loss,top1,lr,…,time\n"
        "1,1,0.5,train,0.1,,0.2,…,1000000000\n"
        "1,0,1,validation,1,0.5,,…,1000000000\n");
  CHECK(contents(scratch / "metrics.jsonl") == to_json(training(1)) + "\n" + to_json(validation(1)) + "\n");
  test::compare_with_tensorboard(scratch.path());
}

TEST_CASE("sinks: Prometheus reads the last values of each split, also after a resume and a damaged name") {
  const ScratchDirectory scratch;
  const std::filesystem::path run = scratch / "a \"b\"";
  std::filesystem::create_directory(run);
  MetricsRecord strange = validation(2);
  strange.metrics = {{"top1", 0.5}, {"odd-name é", std::nan("")}};
  {
    MetricsSinks sinks(run, {kPrometheus}, {});
    sinks.append(training(1));
    sinks.append(training(2));
    sinks.append(strange);
  }
  const std::string text = contents(run / "metrics.prom");
  CHECK(text.find("# TYPE trainer_loss gauge\n"
                  "trainer_loss{run=\"a \\\"b\\\"\",split=\"train\"} 0.1\n"
                  "trainer_loss{run=\"a \\\"b\\\"\",split=\"validation\"} 1\n") != std::string::npos);
  CHECK(text.find("trainer_step{run=\"a \\\"b\\\"\",split=\"train\"} 2\n") != std::string::npos);
  CHECK(text.find("trainer_odd_name___{run=\"a \\\"b\\\"\",split=\"validation\"} NaN\n") !=
        std::string::npos);
  CHECK(text.find("csv") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run / "metrics.csv"));
  std::filesystem::remove(run / "metrics.prom");
  const MetricsSinks resumed(run, {kPrometheus}, {});
  CHECK(contents(run / "metrics.prom") == text);
  CHECK_FALSE(std::filesystem::exists(run / "metrics.prom.new"));
}

TEST_CASE("sinks: a metric that was not announced gets a column, in earlier rows too") {
  const ScratchDirectory scratch;
  MetricsSinks sinks(scratch.path(), kBoth, {});
  MetricsRecord strange = validation(2);
  strange.metrics = {{"a \"b\",c", std::nan("")}};
  for (const MetricsRecord& record : {training(1), validation(1), strange, training(3)}) sinks.append(record);
  CHECK(short_table(scratch) ==
        "step,updates,epoch,split,loss,top1,\"a \"\"b\"\",c\",lr,…,time\n"
        "1,1,0.5,train,0.1,,,0.2,…,1000000000\n"
        "1,0,1,validation,1,0.5,,,…,1000000000\n"
        "2,0,1,validation,1,,nan,,…,1000000000\n"
        "3,3,0.5,train,0.1,,,0.2,…,1000000000\n");
  test::compare_with_tensorboard(scratch.path());
}

TEST_CASE("sinks: after the lines were cut every file goes on from there") {
  const ScratchDirectory scratch;
  std::string kept;
  {
    MetricsSinks sinks(scratch.path(), kBoth, {"top1"});
    sinks.append(training(1));
    sinks.append(validation(1));
    kept = contents(scratch / "metrics.jsonl");
    for (int64_t step : {2, 3, 4}) sinks.append(training(step));
  }
  const std::string whole = contents(scratch / "metrics.jsonl"), table = contents(scratch / "metrics.csv");
  put(scratch / "metrics.jsonl", kept);
  MetricsSinks sinks(scratch.path(), kBoth, {"top1"});
  for (int64_t step : {2, 3, 4}) sinks.append(training(step));
  CHECK(contents(scratch / "metrics.jsonl") == whole);
  CHECK(contents(scratch / "metrics.csv") == table);
  test::compare_with_tensorboard(scratch.path());
}

TEST_CASE("sinks: what cannot be written is there once it can be") {
  const ScratchDirectory scratch;
  const ScratchDirectory other;
  MetricsSinks sinks(scratch.path(), kBoth, {"top1"}), whole(other.path(), kBoth, {"top1"});
  const auto append = [&](const MetricsRecord& record) {
    sinks.append(record);
    whole.append(record);
  };
  append(training(1));
  {
    const test::FileSizeLimit full(0);
    for (int64_t step = 2; step < 5; ++step) sinks.append(training(step));
    CHECK_THROWS_AS(sinks.sync(), Error);
  }
  const std::string behind = contents(scratch / "metrics.jsonl");
  CHECK(behind.find("\"step\":4") == std::string::npos);
  for (int64_t step = 2; step < 5; ++step) whole.append(training(step));
  SECTION("with the next record") {
    append(validation(4));
  }
  SECTION("at the end") {
    sinks.complete();
  }
  for (const char* file : {"metrics.jsonl", "metrics.csv"})
    CHECK(contents(scratch / file) == contents(other / file));
  test::compare_with_tensorboard(scratch.path());
}

TEST_CASE("sinks: only what is asked for is written, and each record has a time") {
  const ScratchDirectory scratch;
  MetricsSinks sinks(scratch.path(), {}, {"top1"});
  const auto before = static_cast<double>(std::time(nullptr));
  sinks.append({.split = "train"});
  CHECK(scratch.names() == std::set<std::string>{"metrics.jsonl"});
  read_records(scratch / "metrics.jsonl", [&](const MetricsRecord& record) {
    CHECK(record.time.value_or(0) >= before);
    CHECK(record.time.value_or(0) <= before + 60);
  });
}

}  // namespace trainer
