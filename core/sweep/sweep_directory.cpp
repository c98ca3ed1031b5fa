// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/directory.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/host/process.h"
#include "core/run/run_identity.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Keys that a sweep may change while it goes on, and those that say where it is.
const std::vector<std::string>& changeable() {
  static const std::vector<std::string> keys = {"sweep.trials", "sweep.parallel", "sweep.keep",
                                                "run.output_dir", "run.max_wall_time"};
  return keys;
}

Json json_of(const Observation& known) {
  Json values = Json::array();
  for (const std::optional<double>& value : known.setting) values.push_back(value ? Json(*value) : Json());
  return {{"values", std::move(values)},
          {"finished", known.state == Observation::State::finished},
          {"value", known.value},
          {"rung", known.rung}};
}

/// Nothing for anything else.
std::optional<Observation> parse_known(const Json& json) {
  const Json *values = json.find("values"), *finished = json.find("finished"), *value = json.find("value"),
             *rung = json.find("rung");
  if (values == nullptr || !values->is_array() || finished == nullptr || !finished->is_boolean() ||
      value == nullptr || !value->is_number() || rung == nullptr || !rung->integer())
    return std::nullopt;
  Observation known{.state = finished->boolean() ? Observation::State::finished : Observation::State::dropped,
                    .value = value->number(),
                    .rung = *rung->integer()};
  for (const Json& item : values->items()) {
    if (!item.is_null() && !item.is_number()) return std::nullopt;
    known.setting.push_back(item.is_null() ? std::nullopt : std::optional(item.number()));
  }
  return known;
}

std::string text_of(const StoredSweep& sweep) {
  Json json = {{"threads", sweep.threads},
               {"trials", sweep.trials},
               {"settings", sweep.settings},
               {"recipe", sweep.recipe}};
  json["known"] = Json::array();
  for (const Observation& known : sweep.known) json["known"].push_back(json_of(known));
  return json.dump(1, Json::NotUtf8::replace) + "\n";
}

/// Writes the file unless it is there. Of several processes that begin, one makes it.
void create(const fs::path& path, const std::string& text) {
  const std::string start = fmt::format("{} {} {}", host_name(), ::getpid(), steady_seconds());
  const fs::path own = fmt::format("{}.{}", path.string(), text_hash(start));
  write_atomically(own, text);
  const int error = ::link(own.c_str(), path.c_str()) == 0 ? 0 : errno;
  std::error_code ignored;
  fs::remove(own, ignored);
  if (error != 0 && error != EEXIST && !fs::exists(path, ignored)) throw io_error(path, "link", error);
}

StoredSweep read_sweep(const fs::path& path) {
  const std::optional<StoredSweep> stored = parse_sweep(read_text(path, Links::refuse).value_or(""));
  if (!stored)
    throw Error(ExitCode::data, fmt::format("{} is damaged; restore it, or choose another run.output_dir",
                                            one_line(path.string())));
  return *stored;
}

/// Throws Error (exit 78) if the sweep differs from the stored one in a key that must stay.
void require_same_sweep(const StoredSweep& stored, const StoredSweep& wanted, const fs::path& path) {
  const std::optional<RunIdentity> before = parse_identity(stored.settings);
  if (!before)
    throw Error(ExitCode::data, fmt::format("{} is damaged", one_line((path / kSweepFile).string())));
  const std::vector<Difference> differences =
      forbidden_differences(*before, *parse_identity(wanted.settings), changeable());
  if (!differences.empty()) {
    throw Error(ExitCode::recipe,
                fmt::format("{} holds a sweep of another recipe: {}; choose another run.output_dir",
                            one_line(path.string()), difference_text(differences)));
  }
  if (wanted.trials < stored.trials) {
    throw Error(ExitCode::recipe,
                fmt::format("{} holds a sweep of {} trials, and sweep.trials is {}; it may only grow",
                            one_line(path.string()), stored.trials, wanted.trials));
  }
}

/// Whether a record is of this trial of the sweep, and not of another sweep's.
bool is_record_of(const SweepPlan& plan, const TrialRecord& record, int64_t number) {
  const bool has_rungs = std::ranges::all_of(
      record.repeats, [&](const RepeatRecord& repeat) { return repeat.rungs.size() <= plan.rungs().size(); });
  return record.number == number && record.texts.size() == plan.columns().size() &&
         record.repeats.size() == plan.repeats().size() && has_rungs;
}

/// The values of a record's columns in the order of another sweep's; "" for those that it lacks.
std::vector<std::string> texts_for(const SweepPlan& plan, const SweepPlan& other, const TrialRecord& record) {
  std::vector<std::string> texts;
  for (const std::string& column : plan.columns()) {
    const auto found = std::ranges::find(other.columns(), column);
    const auto index = static_cast<size_t>(found - other.columns().begin());
    texts.push_back(index < record.texts.size() ? record.texts[index] : "");
  }
  return texts;
}

/// But for what processes that make sweep.json leave until it is there.
bool holds_nothing(const fs::path& directory) {
  std::error_code error;
  const std::vector<DirectoryEntry> entries = directory_entries(directory, error);
  return std::ranges::all_of(entries, [](const DirectoryEntry& entry) {
    const std::string name = entry.path().filename().string();
    return name.starts_with(kSweepFile) || is_unfinished(name);
  });
}

/// The results of an earlier sweep in this one's space. A drop means the same only at the same rungs.
void add_known(const SweepPlan& plan, const fs::path& directory, std::vector<Observation>& known) {
  const Origin place = plan.recipe().origin_of("sweep.know");
  const std::optional<SweepPlan> other = sweep_in(directory);
  if (!other) fail_at(place, fmt::format("there is no sweep in {}", one_line(directory.string())));
  if (other->metric() != plan.metric()) {
    fail_at(place, fmt::format("{} holds a sweep by {}, not by {}", one_line(directory.string()),
                               other->metric(), plan.metric()));
  }
  const TrialRecords records = read_trials(directory, *other, [](const std::string&) {});
  const std::vector<Observation> results = observations(*other, records, sweep_state(*other, records));
  size_t index = 0;
  for (const auto& [number, record] : records) {
    Observation result = results[index++];
    const std::optional<Setting> values = plan.values_of(texts_for(plan, *other, record));
    const bool is_dropped = result.state == Observation::State::dropped;
    if (!values || !has_result(result) || (is_dropped && other->rungs() != plan.rungs())) continue;
    result.setting = *values;
    known.push_back(std::move(result));
  }
}

std::vector<Observation> known_results(const SweepPlan& plan) {
  std::vector<Observation> known;
  for (const std::string& directory : plan.section().know) add_known(plan, directory, known);
  return known;
}

}  // namespace

std::optional<StoredSweep> parse_sweep(std::string_view text) {
  const Json json = Json::parse_or_null(text);
  const Json *threads = json.find("threads"), *trials = json.find("trials"),
             *settings = json.find("settings"), *recipe = json.find("recipe");
  const auto is_count = [](const Json* value) { return value != nullptr && value->integer() >= int64_t{0}; };
  const auto is_text = [](const Json* value) { return value != nullptr && value->is_text(); };
  if (!is_count(threads) || !is_count(trials) || !is_text(settings) || !is_text(recipe)) return std::nullopt;
  StoredSweep sweep{.threads = *threads->integer(),
                    .trials = *trials->integer(),
                    .settings = settings->text(),
                    .recipe = recipe->text()};
  const Json* known = json.find("known");
  if (known == nullptr || !known->is_array()) return std::nullopt;
  for (const Json& item : known->items()) {
    std::optional<Observation> one = parse_known(item);
    if (!one) return std::nullopt;
    sweep.known.push_back(*std::move(one));
  }
  return sweep;
}

fs::path sweep_path(const Recipe& recipe) {
  const bool is_usual = recipe.run.output_dir == RunSection().output_dir;
  return is_usual ? fs::path("runs") / (recipe.run.name + "-sweep") : fs::path(recipe.output_directory());
}

SweepDirectory::SweepDirectory(const SweepPlan& plan, int64_t threads)
    : path_(sweep_path(plan.recipe())), plan_(plan) {
  const fs::path file = path_ / kSweepFile;
  std::error_code error;
  const bool is_new = !fs::exists(file, error);
  if (is_new && !holds_nothing(path_) && !fs::exists(file, error)) {
    throw Error(ExitCode::recipe,
                fmt::format("{} is not empty, and holds no sweep; choose another run.output_dir",
                            one_line(path_.string())));
  }
  fs::create_directories(path_, error);
  if (error) throw io_error(path_, "making the directory", error.value());
  StoredSweep wanted{.threads = threads,
                     .trials = plan.trials(),
                     .settings = identity_of(plan.recipe().settings()).mathematics,
                     .recipe = plan.recipe().to_yaml(false)};
  if (is_new) {
    wanted.known = known_results(plan);
    create(file, text_of(wanted));
  }
  StoredSweep stored = read_sweep(file);
  require_same_sweep(stored, wanted, path_);
  threads_ = stored.threads;
  known_ = stored.known;
  if (stored.trials == wanted.trials) return;
  stored.trials = wanted.trials;
  stored.recipe = wanted.recipe;
  write_atomically(file, text_of(stored));
}

const TrialRecords& SweepDirectory::records(const Warn& warn) {
  for (int64_t number = 0; number < plan_.trials(); ++number) {
    const fs::path file = path_ / (trial_name(number) + ".json");
    struct stat status = {};
    if (::stat(file.c_str(), &status) != 0) continue;
    const Seen now{.inode = status.st_ino,
                   .modified = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
                   .bytes = status.st_size};
    if (seen_[number] == now) continue;
    seen_[number] = now;
    const std::optional<TrialRecord> record = parse_trial(read_text(file, Links::refuse).value_or(""));
    if (record && is_record_of(plan_, *record, number)) {
      records_[number] = *record;
    } else {
      records_.erase(number);
      warn(fmt::format("{} is damaged: its trial goes on from its own run", one_line(file.string())));
    }
  }
  return records_;
}

std::optional<SweepPlan> sweep_in(const fs::path& directory) {
  const fs::path file = directory / kSweepFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  return SweepPlan({.path = file.string(), .text = read_sweep(file).recipe}, {}, SweepPlan::Check::none);
}

TrialRecords read_trials(const fs::path& directory, const SweepPlan& plan, const SweepDirectory::Warn& warn) {
  TrialRecords records;
  for (int64_t number = 0; number < plan.trials(); ++number) {
    const fs::path file = directory / (trial_name(number) + ".json");
    const std::optional<std::string> text = read_text(file, Links::refuse);
    if (!text) continue;
    if (std::optional<TrialRecord> record = parse_trial(*text);
        record && is_record_of(plan, *record, number)) {
      records[number] = *std::move(record);
    } else {
      warn(fmt::format("{} is damaged, and left out", one_line(file.string())));
    }
  }
  return records;
}

}  // namespace trainer
