// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <vector>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/metrics/metrics.h"
#include "core/run/best_weights.h"
#include "core/run/resume.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdentityFile = "identity.json";

[[noreturn]] void throw_foreign(const fs::path& directory, const std::string& what) {
  throw Error(ExitCode::recipe, fmt::format("run directory {} {}: choose another run.output_dir or run.name",
                                            one_line(directory.string()), what));
}

[[noreturn]] void throw_unusable(const fs::path& directory, const fs::filesystem_error& problem) {
  throw Error(ExitCode::io, fmt::format("cannot use run directory {}: {}", one_line(directory.string()),
                                        problem.code().message()));
}

void require_directory(const fs::path& path) {
  if (fs::exists(path) && !fs::is_directory(path)) throw_foreign(path, "is not a directory");
}

/// Files that a run may have left if it was stopped before it wrote its identity.
bool is_harmless(const std::string& name) {
  return name == kLockFile || name.starts_with(kSecretFile) ||
         name.starts_with(fmt::format(".{}.tmp-", kIdentityFile));
}

/// The name of something in the directory that a run did not leave before it wrote its identity.
std::optional<std::string> first_entry(const fs::path& directory) {
  for (const DirectoryEntry& entry : directory_entries(directory)) {
    const std::string name = entry.path().filename().string();
    if (!is_harmless(name)) return name;
  }
  return std::nullopt;
}

/// The keys in the text of an identity.json; empty if there are none.
std::string mathematics_in(const std::string& text) {
  const Json stored = Json::parse_or_null(text);
  const Json* mathematics = stored.find("mathematics");
  return mathematics != nullptr && mathematics->is_text() ? mathematics->text() : "";
}

}  // namespace

std::optional<RunIdentity> stored_identity(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) return std::nullopt;
  const std::string text = mathematics_in(read_text(directory / kIdentityFile, Links::refuse).value_or(""));
  return text.empty() ? std::nullopt : parse_identity(text);
}

RunDirectory::RunDirectory(const fs::path& path, const RunIdentity& identity,
                           std::vector<std::string> allowed)
    : RunDirectory(Unheld{}, path, identity, std::move(allowed)) {
  try {
    require_directory(path_);
    make_directories(path_);
    state_ = inspect();
    if (state_ == State::finished) return;
    lock_.emplace(path_);
    // Another process may have finished between the look and the lock.
    state_ = inspect();
    if (state_ == State::finished) lock_.reset();
    if (state_ != State::finished) held_.emplace(path_);
  } catch (const fs::filesystem_error& error) {
    throw_unusable(path_, error);
  }
}

RunDirectory::State RunDirectory::look(const fs::path& path, const RunIdentity& identity,
                                       const std::vector<std::string>& allowed) {
  try {
    require_directory(path);
    if (!fs::exists(path)) return State::fresh;
    return RunDirectory(Unheld{}, path, identity, allowed).inspect();
  } catch (const fs::filesystem_error& error) {
    throw_unusable(path, error);
  }
}

RunDirectory::State RunDirectory::inspect() const {
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(checkpoint_root(path_), ignored)))
    throw_foreign(path_, "has a link in the place of its checkpoints, which old ones would be removed from");
  // In this order: a process that starts meanwhile writes its identity before all else.
  const std::optional<std::string> entry = first_entry(path_);
  if (!fs::exists(file(kIdentityFile))) {
    if (entry)
      throw_foreign(path_, fmt::format("contains files that do not belong to a run (\"{}\")", *entry));
    return State::fresh;
  }
  const bool same = require_same(read_text(file(kIdentityFile), Links::refuse).value_or(""));
  return same && read_finished(file("summary.json")).value_or(false) ? State::finished : State::unfinished;
}

/// Whether `text`, an identity.json, is of the very same run. Throws if its run may not become
/// this one.
bool RunDirectory::require_same(const std::string& text) const {
  const std::string there = mathematics_in(text);
  if (there == identity_.mathematics) return true;
  const std::optional<RunIdentity> other = there.empty() ? std::nullopt : parse_identity(there);
  if (!other) throw_foreign(path_, fmt::format("contains an {} that cannot be read", kIdentityFile));
  if (other->values == identity_.values)
    throw_foreign(path_, "contains another run (its keys are in another order)");
  if (differences(*other, identity_).empty()) return true;  // except for the form of environment variables
  const std::vector<Difference> all = forbidden_differences(*other, identity_, allowed_);
  if (all.empty()) return false;
  throw Error(ExitCode::recipe,
              fmt::format("run directory {} contains another run ({}): choose another run.output_dir or "
                          "run.name; to resume it with these changes, list their keys in run.allow_changes",
                          one_line(path_.string()), difference_text(all)));
}

/// Removes unfinished files of write_atomically, and the summary of a finished run that this one extends:
/// with the new identity it would say that this one is finished. A run that begins has no best weights yet.
void RunDirectory::tidy(int64_t step) const {
  std::vector<fs::path> left = {file("summary.json")};
  if (step == 0) left.push_back(file(kBestFile));
  for (const DirectoryEntry& entry : directory_entries(path_)) {
    if (is_unfinished(entry.path().filename().string())) left.push_back(entry.path());
  }
  for (const fs::path& path : left) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw io_error(path, "unlink", errno);
  }
  sync_directory(path_);
}

void RunDirectory::begin(const std::string& recipe, int64_t step, int64_t validated, Log& log) {
  require_in_place();  // reading the data may have taken long
  tidy(step);
  const Json identity = {{"hash", text_hash(identity_.mathematics)},
                         {"mathematics", identity_.mathematics},
                         {"program_version", identity_.program_version}};
  // First of all files: without it the next process would think that the directory is not a run's.
  write_atomically(file(kIdentityFile), identity.dump(2) + "\n");
  write_atomically(file("recipe.yaml"), recipe);
  log.attach(file("log.txt"));
  const fs::path metrics = file("metrics.jsonl");
  if (state_ == State::unfinished && step > 0 && !fs::exists(metrics)) {
    log.warn(fmt::format("{} is missing: the metrics up to step {} are lost, those that follow are written",
                         one_line(metrics.string()), step));
  }
  cut_metrics(metrics, step, validated);
}

std::optional<std::string> RunDirectory::loss() const {
  if (!held_) return std::nullopt;
  if (held_->is_in_place()) return lock_->loss();
  return fmt::format(
      "run directory {} was moved, removed or unmounted while the run worked in it: nothing more "
      "was saved; put it back and start the same command again",
      one_line(path_.string()));
}

void RunDirectory::require_held() const {
  if (const std::optional<std::string> why = loss()) throw Error(ExitCode::io, *why);
}

void RunDirectory::require_in_place() const {
  std::optional<std::string> why;
  try {
    why = loss();
  } catch (const Error&) {  // unknown now
  }
  if (why) throw Error(ExitCode::io, *why);
}

}  // namespace trainer
