// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/event_file.h"

#include <cmath>

#include "tests/metrics/tensorboard.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using test::compare_with_tensorboard;
using test::contents;
using test::error_text;
using test::put;
using test::ScratchDirectory;

MetricsRecord record_of(int64_t step, const std::string& split) {
  MetricsRecord record{.step = step, .updates = step - 1, .epoch = 0.5, .split = split, .loss = 1.0 / 3};
  record.metrics = {{"top1", 0.1 * static_cast<double>(step)}, {std::string(200, 'n'), -2}};
  record.lr = 1e-300;
  record.memory_bytes = (int64_t{1} << 40) + 1;
  record.time = 1.7e9 + 0.125 * static_cast<double>(step);
  return record;
}

std::vector<fs::path> event_files(const ScratchDirectory& scratch) {
  std::vector<fs::path> files;
  for (const std::string& name : scratch.names()) {
    if (name.find("tfevents") != std::string::npos) files.push_back(scratch / name);
  }
  return files;
}

/// Appends to the lines and to the events.
void append(const ScratchDirectory& scratch, EventFile& events, const MetricsRecord& record) {
  MetricsWriter(scratch / "metrics.jsonl").append(record);
  events.append(record);
}

}  // namespace

TEST_CASE("events: TensorBoard reads every value, of all sizes, as it was written") {
  const ScratchDirectory scratch;
  EventFile events(scratch.path(), scratch / "metrics.jsonl");
  // Around the steps at which a number of the format grows by a byte.
  for (int64_t step : {int64_t{1}, int64_t{127}, int64_t{128}, int64_t{16384}, int64_t{1} << 40}) {
    append(scratch, events, record_of(step, "train"));
    append(scratch, events, record_of(step, "validation"));
  }
  MetricsRecord lost = record_of(int64_t{1} << 41, "train");
  lost.loss = std::nan("");
  lost.lr = HUGE_VAL;
  append(scratch, events, lost);
  compare_with_tensorboard(scratch.path());
}

TEST_CASE("events: a file made from lines is what records make one by one") {
  const ScratchDirectory scratch;
  EventFile events(scratch.path(), scratch / "metrics.jsonl");
  for (int64_t step = 1; step < 9; ++step) append(scratch, events, record_of(step, "train"));
  const std::string appended = contents(events.path());
  const fs::path first = events.path();
  const EventFile again(scratch.path(), scratch / "metrics.jsonl");
  // The head holds the time: two messages of one length.
  const std::string made = contents(again.path());
  const size_t head = contents(EventFile(ScratchDirectory().path(), "none").path()).size();
  REQUIRE(made.size() == appended.size());
  CHECK(made.substr(head) == appended.substr(head));
  CHECK(event_files(scratch) == std::vector{again.path()});
  CHECK(first.filename() < again.path().filename());
}

TEST_CASE("events: after a cut no step appears twice") {
  const ScratchDirectory scratch;
  const fs::path lines = scratch / "metrics.jsonl";
  std::string kept;
  {
    EventFile events(scratch.path(), lines);
    for (int64_t step = 1; step < 9; ++step) {
      append(scratch, events, record_of(step, "train"));
      if (step == 4) kept = contents(lines);
    }
  }
  put(lines, kept);
  EventFile events(scratch.path(), lines);
  for (int64_t step = 5; step < 7; ++step) append(scratch, events, record_of(step, "train"));
  compare_with_tensorboard(scratch.path());
}

TEST_CASE("events: the new file comes after those of other machines, whose clocks may be ahead") {
  const ScratchDirectory scratch;
  for (const char* name : {"events.out.tfevents.3000000000.z.9", "events.out.tfevents.strange", "events.out"})
    put(scratch / name, "x");
  const EventFile events(scratch.path(), scratch / "metrics.jsonl");
  CHECK(events.path().filename().string().starts_with("events.out.tfevents.3000000001."));
  CHECK(event_files(scratch) == std::vector{events.path()});
  CHECK(fs::exists(scratch / "events.out"));
}

TEST_CASE("events: a missing directory is an I/O error, lines that are none are named") {
  const ScratchDirectory scratch;
  CHECK(error_text(ExitCode::io, [&] {
          EventFile(scratch / "none", scratch / "metrics.jsonl");
        }).starts_with((scratch / "none").string()));
  put(scratch / "metrics.jsonl", "{}\n");
  CHECK(error_text(ExitCode::data, [&] {
          EventFile(scratch.path(), scratch / "metrics.jsonl");
        }).starts_with((scratch / "metrics.jsonl").string() + ":1: "));
}

}  // namespace trainer
