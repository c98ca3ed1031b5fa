// SPDX-License-Identifier: Apache-2.0
#include "core/run/status.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/host/process.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

using State = RunStatus::State;

constexpr std::array<std::pair<State, std::string_view>, 5> kStates = {{{State::running, "running"},
                                                                        {State::saved, "saved"},
                                                                        {State::paused, "paused"},
                                                                        {State::failed, "failed"},
                                                                        {State::finished, "finished"}}};

/// Takes an object apart; remembers whether every requested key was there with the right type.
class StatusReader {
 public:
  explicit StatusReader(const Json& object) : object_(object), valid_(object.is_object()) {}
  bool valid() const { return valid_; }

  int64_t integer(const char* key) {
    const Json* value = object_.find(key);
    valid_ = valid_ && value != nullptr && value->integer();
    return valid_ ? *value->integer() : 0;
  }
  std::string text(const char* key) {
    const Json* value = object_.find(key);
    valid_ = valid_ && value != nullptr && value->is_text();
    return valid_ ? value->text() : "";
  }
  bool truth(const char* key) {
    const Json* value = object_.find(key);
    valid_ = valid_ && value != nullptr && value->is_boolean();
    return valid_ && value->boolean();
  }
  bool has(const char* key) const { return object_.contains(key); }

 private:
  const Json& object_;
  bool valid_;
};

/// Nothing if it is not a list of ranks.
std::optional<std::vector<RankState>> ranks_in(const Json& list) {
  std::vector<RankState> ranks;
  if (!list.is_array()) return std::nullopt;
  for (const Json& each : list.items()) {
    StatusReader reader(each);
    ranks.push_back({.host = reader.text("host"),
                     .activity = reader.text("activity"),
                     .step = reader.integer("step"),
                     .waits = reader.truth("waits"),
                     .bytes = reader.integer("bytes")});
    if (reader.has("gpu")) ranks.back().gpu = reader.integer("gpu");
    if (!reader.valid()) return std::nullopt;
  }
  return ranks;
}

}  // namespace

std::string_view to_string(RunStatus::State state) {
  return std::ranges::find(kStates, state, [](const auto& row) { return row.first; })->second;
}

void write_status(const std::filesystem::path& path, RunStatus status) {
  Json json = {
      {"status", to_string(status.state)}, {"step", status.step}, {"steps", status.steps},
      {"pid", int64_t{::getpid()}},        {"host", host_name()}, {"updated", int64_t{std::time(nullptr)}}};
  if (status.pause_after) json["pause_after"] = *status.pause_after;
  if (status.began_at) json["began_at"] = *status.began_at;
  if (status.exit_code) json["exit_code"] = *status.exit_code;
  if (!status.ranks.empty()) {
    Json& ranks = json["ranks"] = Json::array();
    for (const RankState& rank : status.ranks) {
      Json each{{"host", rank.host},
                {"activity", rank.activity},
                {"step", rank.step},
                {"waits", rank.waits},
                {"bytes", rank.bytes}};
      if (rank.gpu) each["gpu"] = *rank.gpu;
      ranks.push_back(std::move(each));
    }
  }
  if (!status.message.empty()) json["message"] = std::move(status.message);
  // A message may quote a file's name, which need not be UTF-8.
  write_atomically(path, json.dump(2, Json::NotUtf8::replace) + "\n");
}

std::optional<RunStatus> parse_status(std::string_view text) {
  const Json json = Json::parse_or_null(text);
  StatusReader reader(json);
  const std::string name = reader.text("status");
  const auto* state = std::ranges::find(kStates, name, [](const auto& row) { return row.second; });
  if (state == kStates.end()) return std::nullopt;
  RunStatus status{.state = state->first, .step = reader.integer("step"), .steps = reader.integer("steps")};
  status.pid = reader.integer("pid");
  status.host = reader.text("host");
  status.updated = reader.integer("updated");
  if (reader.has("pause_after")) status.pause_after = reader.integer("pause_after");
  if (reader.has("began_at")) status.began_at = reader.integer("began_at");
  if (reader.has("exit_code")) status.exit_code = reader.integer("exit_code");
  if (reader.has("message")) status.message = reader.text("message");
  if (reader.has("ranks")) {
    auto ranks = ranks_in(*json.find("ranks"));
    if (!ranks) return std::nullopt;
    status.ranks = *std::move(ranks);
  }
  return reader.valid() ? std::optional(status) : std::nullopt;
}

std::optional<RunStatus> read_status(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_text(path, Links::refuse);
  return text ? parse_status(*text) : std::nullopt;
}

void StatusKeeper::running(int64_t step) {
  const double interval = ranks_ ? 2 : 10;  // `trainer watch` shows what each does
  now_.step = step;
  const double now = steady_seconds();
  if (now < next_) return;
  next_ = now + interval;
  if (ranks_) now_.ranks = ranks_();
  write();
}

ExitCode StatusKeeper::end(RunStatus::State state, int64_t step, ExitCode code, const std::string& message) {
  now_.state = state;
  now_.step = step;
  now_.exit_code = static_cast<int64_t>(code);
  now_.message = message;
  if (ranks_) now_.ranks = ranks_();
  write();
  return code;
}

void StatusKeeper::write() try { write_status(path_, now_); } catch (const Error&) {
}

}  // namespace trainer
