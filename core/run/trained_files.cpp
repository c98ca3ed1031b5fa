// SPDX-License-Identifier: Apache-2.0
#include "core/run/trained_files.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/run/best_weights.h"
#include "core/run/resume.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// A file of a run's or a checkpoint's directory.
bool has(const fs::path& directory, const char* name) {
  require_regular(directory / name, Links::refuse);
  return is_there(directory / name);
}

/// Both files of a directory that has at least the first.
TrainedFiles files_in(const fs::path& directory) {
  TrainedFiles files{.model = directory / kModelFile, .averages = {}, .run = {}, .damaged = {}};
  if (has(directory, kAveragesFile)) files.averages = directory / kAveragesFile;
  return files;
}

TrainedFiles in_checkpoint(const fs::path& checkpoint) {
  verify_checkpoint(checkpoint);
  TrainedFiles files = files_in(checkpoint);
  const fs::path root = fs::absolute(checkpoint).lexically_normal().parent_path();
  if (checkpoint_root(root.parent_path()) == root) files.run = root.parent_path();
  return files;
}

TrainedFiles in_run(const fs::path& run) {
  std::vector<std::string> damaged;
  for (const fs::path& checkpoint : list_checkpoints(checkpoint_root(run))) {
    try {
      TrainedFiles files = in_checkpoint(checkpoint);
      files.damaged = std::move(damaged);
      return files;
    } catch (const DamageError& problem) {  // anything else may be intact: an older one is not used instead
      damaged.emplace_back(problem.what());
    }
  }
  throw Error(
      ExitCode::data,
      fmt::format("{}: expected a {} or intact checkpoints, found {}", one_line(run.string()), kModelFile,
                  damaged.empty() ? "neither" : fmt::format("only damaged ones: {}", damaged[0])));
}

/// Whether the run went on, with changes that were allowed, after its final weights were written.
bool went_on(const fs::path& run) {
  const Json summary = Json::parse_or_null(read_text(run / "summary.json", Links::refuse).value_or(""));
  const Json* steps = summary.find("steps");
  if (steps == nullptr || !steps->integer()) return false;
  const std::vector<fs::path> checkpoints = list_checkpoints(checkpoint_root(run));
  return !checkpoints.empty() && checkpoint_step(checkpoints.front()) > *steps->integer();
}

}  // namespace

TrainedFiles find_trained(const FilePath& given) {
  const fs::path path = given.resolved;
  if (!is_there(path)) {
    throw Error(ExitCode::data,
                fmt::format("{}: no such file or directory to load weights from", with_base(given)));
  }
  if (!fs::is_directory(path)) return {.model = path, .averages = {}, .run = {}, .damaged = {}};
  const fs::path directory = path.has_filename() ? path : path.parent_path();
  if (checkpoint_step(directory) >= 0 || is_there(directory / kManifestFile)) return in_checkpoint(directory);
  const bool is_final = has(directory, kModelFile) && !went_on(directory);
  TrainedFiles files = is_final ? files_in(directory) : in_run(directory);
  files.run = directory;
  return files;
}

TrainedFiles best_trained(const fs::path& run) {
  if (!has(run, kBestFile)) return find_trained(run);
  return {.model = run / kBestFile, .averages = {}, .run = run, .damaged = {}};
}

}  // namespace trainer
