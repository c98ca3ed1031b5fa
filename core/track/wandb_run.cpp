// SPDX-License-Identifier: Apache-2.0
#include "core/track/wandb_run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <utility>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/version.h"
#include "core/host/process.h"
#include "core/metrics/metrics.h"
#include "core/storage/atomic_file.h"
#include "core/track/record_log.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;

constexpr const char* kProject = "trainer";
constexpr std::string_view kPrefix = "offline-run-";
constexpr size_t kIdLength = 8;

// A file is a log of messages of the type Record. The numbers of fields are those of W&B's
// wandb_internal.proto.
constexpr uint32_t kNumber = 1, kHistory = 2, kSummary = 3, kRunStart = 17, kExit = 18,
                   kHeader = 21;                       // Record
constexpr uint32_t kVersionInfo = 1;                   // HeaderRecord
constexpr uint32_t kProducer = 1, kLeastConsumer = 2;  // VersionInfo
constexpr uint32_t kRunId = 1, kRunProject = 3, kConfig = 4, kDisplayName = 8, kHost = 13,
                   kStartTime = 17;                                // RunRecord
constexpr uint32_t kSeconds = 1, kNanos = 2;                       // Timestamp
constexpr uint32_t kUpdate = 1;                                    // ConfigRecord, SummaryRecord
constexpr uint32_t kItem = 1, kStep = 2, kStepNumber = 1;          // HistoryRecord, HistoryStep
constexpr uint32_t kItemKey = 1, kNestedKey = 2, kValueJson = 16;  // ConfigItem, SummaryItem, HistoryItem
constexpr uint32_t kExitCode = 1, kRuntime = 2;                    // RunExitRecord

std::string number_json(const Number& number) {
  const double value = to_double(number);
  if (!std::isfinite(value)) return "NaN";
  return std::visit([](auto each) { return fmt::format("{}", each); }, number);
}

/// A setting as a number, a truth value or a text.
std::string setting_json(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  const bool is_number = problem == std::errc() && rest == end && std::isfinite(number);
  if (is_number) return Json(number).dump();
  return text == "true" || text == "false" ? text : Json(text).dump(-1, Json::NotUtf8::replace);
}

std::string item(uint32_t key_field, std::initializer_list<std::string_view> keys, const std::string& value) {
  std::string text;
  pbf_writer fields(text);
  for (const std::string_view key : keys) fields.add_string(key_field, key.data(), key.size());
  fields.add_string(kValueJson, value);
  return text;
}

/// Writes records in the order of the steps; the lines of one step become one row.
class Writer {
 public:
  Writer(const WandbRun& run, std::string id, const ByteSink& sink)
      : run_(run), id_(std::move(id)), log_(sink) {
    std::string header, version;
    pbf_writer of_version(version);
    of_version.add_string(kProducer, fmt::format("trainer {}", kVersion));
    of_version.add_string(kLeastConsumer, "0.0.1");
    pbf_writer(header).add_message(kVersionInfo, version);
    add(kHeader, header);
  }

  void take(const MetricsRecord& record) {
    const double time = record.time.value_or(0);
    if (!start_) begin(time);
    if (!row_.empty() && record.step != step_) end_row();
    step_ = record.step;
    time_ = time;
    for (const auto& [key, number] : curves_of(record)) row_[record.split + "/" + key] = number_json(number);
  }

  void finish() {
    if (!start_) begin(0);
    if (!row_.empty()) end_row();
    std::string summary, exit;
    pbf_writer fields(summary);
    for (const auto& [key, value] : last_) fields.add_message(kUpdate, item(kNestedKey, {key}, value));
    const std::string seconds = fmt::format("{}", std::llround(time_ - *start_));
    fields.add_message(kUpdate, item(kNestedKey, {"_wandb", "runtime"}, seconds));
    add(kSummary, summary);
    pbf_writer of_exit(exit);
    of_exit.add_int32(kExitCode, static_cast<int32_t>(run_.exit_code));
    of_exit.add_int32(kRuntime, static_cast<int32_t>(std::llround(time_ - *start_)));
    add(kExit, exit);
  }

 private:
  void begin(double time) {
    start_ = time;
    std::string run, config, start;
    pbf_writer fields(run), of_config(config), of_start(start);
    for (const auto& [key, value] : run_.config)
      of_config.add_message(kUpdate, item(kItemKey, {key}, setting_json(value)));
    const auto seconds = static_cast<int64_t>(time);
    of_start.add_int64(kSeconds, seconds);
    of_start.add_int32(kNanos, static_cast<int32_t>((time - static_cast<double>(seconds)) * 1e9));
    fields.add_string(kRunId, id_);
    fields.add_string(kRunProject, kProject);
    fields.add_message(kConfig, config);
    fields.add_string(kDisplayName, fs::weakly_canonical(run_.directory).filename().string());
    fields.add_string(kHost, host_name());
    fields.add_message(kStartTime, start);
    add(kRunStart, run);
  }

  void end_row() {
    row_["_step"] = fmt::format("{}", step_);
    row_["_timestamp"] = fmt::format("{}", time_);
    row_["_runtime"] = fmt::format("{}", time_ - *start_);
    std::string history, step;
    pbf_writer fields(history);
    for (const auto& [key, value] : row_) {
      fields.add_message(kItem, item(kNestedKey, {key}, value));
      last_[key] = value;
    }
    pbf_writer(step).add_int64(kStepNumber, step_);
    fields.add_message(kStep, step);
    add(kHistory, history);
    row_.clear();
  }

  void add(uint32_t kind, const std::string& message) {
    std::string record;
    pbf_writer fields(record);
    fields.add_int64(kNumber, ++count_);
    fields.add_message(kind, message);
    log_.add(record);
  }

  const WandbRun& run_;
  std::string id_;
  RecordLog log_;
  int64_t count_ = 0, step_ = 0;
  std::optional<double> start_;
  double time_ = 0;
  std::map<std::string, std::string> row_, last_;  // values as JSON
};

std::string random_id() {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::array<unsigned char, kIdLength> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw io_error("random numbers", "getrandom", errno);
  std::string id;
  for (const unsigned char byte : bytes) id += kDigits[byte % kDigits.size()];
  return id;
}

/// The ID at the end of a directory's name; empty if it is not one of ours.
std::string id_in(const std::string& name) {
  const size_t dash = name.rfind('-');
  if (!name.starts_with(kPrefix) || dash == std::string::npos) return "";
  const std::string id = name.substr(dash + 1);
  const auto is_digit = [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'z'); };
  return id.size() == kIdLength && std::ranges::all_of(id, is_digit) ? id : "";
}

}  // namespace

fs::path write_wandb_run(const WandbRun& run) {
  const fs::path above = run.directory / "wandb";
  make_directories(above);
  std::string name;
  for (const DirectoryEntry& entry : directory_entries(above)) {
    const std::string found = entry.path().filename().string();
    if (!id_in(found).empty() && !entry.is_symlink()) name = std::max(name, found);
  }
  if (name.empty())
    name = fmt::format("{}{:%Y%m%d_%H%M%S}-{}", kPrefix, fmt::localtime(std::time(nullptr)), random_id());
  make_directories(above / name);
  const std::string id = id_in(name);
  write_atomically(above / name / fmt::format("run-{}.wandb", id), [&](const ByteSink& sink) {
    Writer writer(run, id, sink);
    read_records(run.directory / "metrics.jsonl", [&](const MetricsRecord& record) { writer.take(record); });
    writer.finish();
  });
  return above / name;
}

}  // namespace trainer
