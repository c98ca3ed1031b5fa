// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/metrics.h"
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/storage/file_size_limit.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using test::contents;
using test::error_text;
using test::put;
using test::ScratchDirectory;

MetricsRecord full_record() {
  MetricsRecord record;
  record.step = 12;
  record.updates = 11;
  record.epoch = 0.1;
  record.split = "train";
  record.loss = 0.1 + 0.2;
  record.metrics = {{"top5", 0.5}, {"top1", 0.25}, {"world_size", int64_t{3}}, {"whole", 3.0}};
  record.lr = 0.125;
  record.grad_norm = 1.5;
  record.samples_per_s = 1000;
  record.tokens_per_s = 64000;
  record.data_wait_ms = 1;
  record.forward_ms = 2;
  record.backward_ms = 3;
  record.update_ms = 4;
  record.memory_bytes = int64_t{1} << 40;
  record.loss_scale = 65536;
  record.skipped = 3;
  record.event = "skip";
  record.reason = "spike";
  record.in_a_row = 2;
  record.time = 1.7e9 + 0.125;
  return record;
}

TEST_CASE("metrics: a line holds every key in order, its numbers exact") {
  CHECK(to_json(full_record()) ==
        R"({"step":12,"updates":11,"epoch":0.1,"split":"train","loss":0.30000000000000004,"top5":0.5,)"
        R"("top1":0.25,"world_size":3,"whole":3.0,"lr":0.125,"grad_norm":1.5,"samples_per_s":1000.0,)"
        R"("tokens_per_s":64000.0,"data_wait_ms":1.0,)"
        R"("forward_ms":2.0,"backward_ms":3.0,"update_ms":4.0,"memory_bytes":1099511627776,)"
        R"("loss_scale":65536.0,"skipped":3,"event":"skip","reason":"spike","in_a_row":2,)"
        R"("time":1700000000.125})");
}

TEST_CASE("metrics: what is absent is left out, what is not finite is named") {
  MetricsRecord record;
  record.split = "val \"x\"\n";
  record.loss = std::nan("");
  record.metrics = {{"top1", 1}, {"norm", HUGE_VAL}};
  const std::string line = to_json(record);
  CHECK(line.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(line);
  CHECK(json.size() == 8);
  CHECK(json["split"] == record.split);
  CHECK(json["loss"].is_null());
  CHECK(json["norm"].is_null());
  CHECK(json["non_finite"] == std::vector<std::string>{"loss", "norm"});
  CHECK_FALSE(nlohmann::json::parse(to_json(full_record())).contains("non_finite"));
}

TEST_CASE("metrics: a line gives its record back") {
  const std::string line = to_json(full_record());
  REQUIRE(parse_record(line));
  CHECK(to_json(*parse_record(line)) == line);
  const auto record = parse_record(
      R"({"step":1,"updates":1,"epoch":1,"split":"a","loss":null,"norm":null,"non_finite":["loss","norm"]})");
  REQUIRE(record);
  CHECK(std::isnan(record->loss));
  REQUIRE(record->metrics.size() == 1);
  CHECK(record->metrics[0].first == "norm");
  CHECK(std::isnan(std::get<double>(record->metrics[0].second)));
  CHECK_FALSE(record->lr);
}

TEST_CASE("metrics: another text gives no record") {
  const std::string line = to_json(full_record());
  const std::pair<const char*, const char*> changes[] = {
      {"\"step\":12,", ""},   {"12", "12.5"},   {"12", "9223372036854775808"}, {"\"train\"", "1"},
      {"0.125", "\"0.125\""}, {"0.25", "true"}, {"\"loss\"", "\"l\""},         {"}", "}}"},
  };
  for (const auto& [from, to] : changes) {
    std::string bad = line;
    bad.replace(bad.find(from), std::string(from).size(), to);
    INFO(bad);
    CHECK_FALSE(parse_record(bad));
  }
  for (const char* text : {"", "1", "[]", "null"}) CHECK_FALSE(parse_record(text));
}

TEST_CASE("metrics: a line that is none is named, and an incomplete one") {
  const ScratchDirectory scratch;
  const auto path = scratch / "m.jsonl";
  int64_t count = 0;
  const auto read = [&] { read_records(path, [&](const MetricsRecord&) { ++count; }); };
  read();
  const std::string line = to_json(full_record());
  put(path, line + "\n" + line + "\n");
  read();
  CHECK(count == 2);
  put(path, line + "\n\n" + line + "\n");
  CHECK(error_text(ExitCode::data, read) ==
        path.string() + ":2: expected a line of metrics, found another text; remove the line");
  put(path, line + "\n" + line);
  CHECK(error_text(ExitCode::data, read) ==
        path.string() + ":2: expected a line of metrics, found an incomplete one; remove the line");
}

TEST_CASE("metrics: the keys of all lines are those of a full one") {
  std::vector<std::string> keys;
  const auto line = nlohmann::ordered_json::parse(to_json(full_record()));
  for (const auto& item : line.items()) keys.push_back(item.key());
  CHECK(record_keys({"top5", "top1", "world_size", "whole"}) == keys);
  for (const char* text : {"split", "event", "reason"}) std::erase(keys, text);
  std::vector<std::string> named;
  for (const auto& [name, value] : numbers_of(full_record())) named.push_back(name);
  CHECK(named == keys);
}

TEST_CASE("metrics: records are appended, a line each") {
  const ScratchDirectory scratch;
  put(scratch / "m.jsonl", "{\"step\":-1}\n");
  {
    MetricsWriter writer(scratch / "m.jsonl");
    for (int64_t step = 0; step < 3; ++step) {
      MetricsRecord record = full_record();
      record.step = step;
      writer.append(record);
      CHECK(contents(scratch / "m.jsonl").ends_with("}\n"));
    }
  }
  std::istringstream lines(contents(scratch / "m.jsonl"));
  int64_t expected = -1;
  for (std::string line; std::getline(lines, line); ++expected) {
    CHECK(nlohmann::json::parse(line)["step"] == expected);
  }
  CHECK(expected == 3);
}

TEST_CASE("metrics: lines that cannot be written wait until they can be") {
  const ScratchDirectory scratch;
  MetricsWriter writer(scratch / "m.jsonl");
  const std::string line = to_json(full_record()) + "\n";
  {
    const test::FileSizeLimit limit(line.size() + 10);
    for (int i = 0; i < 3; ++i) writer.append(full_record());
    const std::string text = error_text(ExitCode::io, [&] { writer.sync(); });
    CHECK(text.ends_with("m.jsonl: write: File too large"));
  }
  CHECK(contents(scratch / "m.jsonl") == line + line.substr(0, 10));
  writer.append(full_record());
  writer.sync();
  CHECK(contents(scratch / "m.jsonl") == line + line + line + line);
}

TEST_CASE("metrics: an evaluation that is done again is not there twice") {
  const ScratchDirectory scratch;
  const std::string before = "{\"step\":2,\"split\":\"validation\"}\n{\"step\":4,\"split\":\"train\"}\n";
  put(scratch / "m.jsonl", before + "{\"step\":4,\"split\":\"validation\"}\n");
  cut_metrics(scratch / "m.jsonl", 4, 4);
  CHECK(contents(scratch / "m.jsonl") == before + "{\"step\":4,\"split\":\"validation\"}\n");
  cut_metrics(scratch / "m.jsonl", 4, 2);
  CHECK(contents(scratch / "m.jsonl") == before);
}

TEST_CASE("metrics: a file that cannot be opened or a full disk is an I/O error") {
  const ScratchDirectory scratch;
  CHECK(error_text(ExitCode::io, [&] { MetricsWriter writer(scratch / "no/m.jsonl"); }) ==
        (scratch / "no/m.jsonl").string() + ": open: No such file or directory");
  MetricsWriter full(scratch / "full.jsonl");
  const test::FileSizeLimit limit(10);
  full.append(full_record());
  CHECK(error_text(ExitCode::io, [&] { full.sync(); }) ==
        (scratch / "full.jsonl").string() + ": write: File too large");
}

TEST_CASE("summary: dotted names nest, in the order given") {
  const ScratchDirectory scratch;
  write_summary(scratch / "s.json", {{"finished", true},
                                     {"validation.last.top1", 0.92},
                                     {"run", "mlp"},
                                     {"validation.best.top1", 0.93},
                                     {"validation.last.loss", std::nan("")},
                                     {"steps", int64_t{1} << 53}});
  const auto json = nlohmann::ordered_json::parse(contents(scratch / "s.json"));
  CHECK(
      json.dump() ==
      R"({"finished":true,"validation":{"last":{"top1":0.92,"loss":null},"best":{"top1":0.93}},"run":"mlp",)"
      R"("steps":9007199254740992,"non_finite":["validation.last.loss"]})");
}

TEST_CASE("summary: a name that is both a value and a map is refused") {
  const ScratchDirectory scratch;
  const auto path = scratch / "s.json";
  error_text(ExitCode::internal, [&] { write_summary(path, {{"a", 1.0}, {"a.b", 2.0}}); });
  error_text(ExitCode::internal, [&] { write_summary(path, {{"a.b", 1.0}, {"a", 2.0}}); });
  error_text(ExitCode::internal, [&] { write_summary(path, {{"a", 1.0}, {"a", 2.0}}); });
  CHECK(scratch.names().empty());
}

TEST_CASE("summary: finished is read back") {
  const ScratchDirectory scratch;
  const auto path = scratch / "s.json";
  CHECK(read_finished(path) == std::nullopt);
  write_summary(path, {{"finished", true}});
  CHECK(read_finished(path) == true);
  write_summary(path, {{"finished", false}});
  CHECK(read_finished(path) == false);
  for (const std::string text : {"", "{", "[true]", "{}", "{\"finished\": 1}", "{\"finished\": \"true\"}"}) {
    put(path, text);
    CHECK(read_finished(path) == std::nullopt);
  }
}

}  // namespace
}  // namespace trainer
