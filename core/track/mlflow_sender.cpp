// SPDX-License-Identifier: Apache-2.0
#include "core/track/mlflow_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/base/version.h"
#include "core/host/process.h"

namespace trainer {
namespace {

/// The least that releases of MLflow take as the value of a parameter. recipe.yaml has longer ones.
constexpr size_t kMostValue = 500, kMostName = 250;

/// An upload beyond this would occupy the server for long.
constexpr int64_t kMostFileBytes = int64_t{64} << 20;

int64_t now_ms() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

std::string without_slash(std::string uri) {
  while (uri.ends_with('/')) uri.pop_back();
  return uri;
}

/// As many bytes as this, less those of a character that would be cut.
std::string shortened(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text;
}

/// The items, in groups of at most so many.
template <class Item, class Take>
void in_groups(const std::vector<Item>& items, size_t most, const Take& take) {
  for (size_t begin = 0; begin < items.size(); begin += most) {
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(begin);
    take({first, first + static_cast<std::ptrdiff_t>(std::min(most, items.size() - begin))});
  }
}

}  // namespace

std::string mlflow_name(const std::string& name) {
  std::string taken;
  for (const char c : name) {
    const bool is_allowed = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
                            c == '_' || c == '-' || c == '.' || c == '/' || c == ' ';
    if (c == '[') taken += '.';
    if (c == '[' || c == ']') continue;
    taken += is_allowed ? c : '_';
  }
  return shortened(taken, kMostName);
}

std::vector<Json> mlflow_metrics(const MetricsRecord& record) {
  std::vector<Json> metrics;
  // Zero would count as missing.
  const auto time = std::max<int64_t>(1, std::llround(record.time.value_or(0) * 1e3));
  for (const auto& [key, number] : curves_of(record)) {
    const double value = to_double(number);
    metrics.push_back(Json{{"key", mlflow_name(record.split + "/" + key)},
                           {"value", std::isfinite(value) ? Json(value) : Json("NaN")},
                           {"timestamp", time},
                           {"step", record.step}});
  }
  return metrics;
}

MlflowSender::MlflowSender(TrackedRun run, HttpClient& http, std::function<void(const std::string&)> note)
    : run_(std::move(run)),
      server_(without_slash(run_.uri), http),
      note_(std::move(note)),
      lines_(run_.directory / "metrics.jsonl", [this] { return state_->sent_lines(); }) {}

bool MlflowSender::advance() {
  if (!state_) {
    state_.emplace(run_.directory, without_slash(run_.uri), run_.experiment);
    for (MetricsRecord& record : state_->being_sent()) {
      const int64_t form = short_form(record);
      batch_.push_back({std::move(record), form});
    }
  }
  if (!state_->run()) {
    state_->note_run(
        server_.open_run({run_.experiment, state_->key(),
                          std::filesystem::weakly_canonical(run_.directory).filename().string(), now_ms()}));
    return true;
  }
  if (must_set_running_) {
    server_.set_status(state_->run()->id, "RUNNING", 0);
    must_set_running_ = false;
    return true;
  }
  if (!state_->has_parameters()) {
    send_parameters();
    return true;
  }
  if (batch_.empty()) choose_lines();
  if (batch_.empty()) return false;
  send_lines();
  return true;
}

void MlflowSender::choose_lines() {
  std::vector<PendingLines::Line> lines = lines_.next(MlflowServer::kMostMetrics);
  std::string text;
  for (const PendingLines::Line& line : lines) text += to_json(line.record) + "\n";
  if (!lines.empty()) state_->note_being_sent(text);
  batch_ = std::move(lines);
}

void MlflowSender::send_parameters() {
  const std::filesystem::path place = std::filesystem::weakly_canonical(run_.directory);
  log({}, {},
      {{"trainer.version", kVersion}, {"trainer.host", host_name()}, {"trainer.directory", place.string()}});
  MlflowServer::Pairs all;
  for (const auto& [key, value] : run_.parameters)
    all.emplace_back(mlflow_name(key), shortened(value, kMostValue));
  in_groups(all, MlflowServer::kMostPairs, [&](const MlflowServer::Pairs& some) { log({}, some, {}); });
  state_->note_parameters();
}

void MlflowSender::send_lines() {
  std::vector<Json> metrics;
  std::vector<int64_t> sent;
  for (const PendingLines::Line& line : batch_) {
    std::ranges::move(mlflow_metrics(line.record), std::back_inserter(metrics));
    sent.push_back(line.form);
  }
  in_groups(metrics, MlflowServer::kMostMetrics, [&](const std::vector<Json>& some) { log(some, {}, {}); });
  state_->note_lines(sent);
  lines_.accept();
  batch_.clear();
  state_->note_being_sent("");
}

/// Values that the server refuses are left out, so that others follow.
void MlflowSender::log(const std::vector<Json>& metrics, const MlflowServer::Pairs& parameters,
                       const MlflowServer::Pairs& tags) try {
  server_.log(state_->run()->id, metrics, parameters, tags);
} catch (const TrackerError& problem) {
  if (problem.remedy != TrackerError::Remedy::drop) throw;
  if (!has_noted_refusal_) note_(fmt::format("{}; these values are left out there", problem.what()));
  has_noted_refusal_ = true;
}

void MlflowSender::finish(const std::string& status) {
  const MlflowServer::Run& run = *state_->run();
  if (MlflowServer::takes_files(run)) {
    for (const char* name : {"summary.json", "recipe.yaml"})
      upload(name, [&] { return read_text(run_.directory / name, Links::refuse, kMostFileBytes); });
    upload("report.html", run_.report);
  } else {
    note_(
        fmt::format("MLflow keeps the files of this run in {}, which the server does not write to: "
                    "summary.json, recipe.yaml and the report stay in {}",
                    run.artifacts.empty() ? "an unknown place" : one_line(run.artifacts),
                    one_line(run_.directory.string())));
  }
  server_.set_status(run.id, status, now_ms());
}

/// A file that cannot be read or is refused does not keep the others from being sent.
void MlflowSender::upload(const std::string& name,
                          const std::function<std::optional<std::string>()>& content) {
  const auto leave_out = [&](const std::exception& problem) {
    note_(fmt::format("{}; {} is left out there", problem.what(), name));
  };
  std::optional<std::string> bytes;
  try {
    bytes = content();
  } catch (const Error& problem) {
    leave_out(problem);
  }
  if (!bytes) return;
  try {
    server_.upload(*state_->run(), name, std::move(*bytes));
  } catch (const TrackerError& problem) {
    if (problem.remedy == TrackerError::Remedy::retry) throw;
    leave_out(problem);
  }
}

}  // namespace trainer
