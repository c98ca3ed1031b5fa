// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/inspection.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/run/best_weights.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The reason why data is invalid, in words; other errors are passed on.
template <class Act>
std::string problem_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    return error.what();
  }
  return "";
}

/// Compares a file with the manifest beside it, if one lists it.
void compare_with_manifest(const fs::path& path) {
  const fs::path directory = path.parent_path();
  if (!fs::exists(fs::symlink_status(directory / kManifestFile))) return;
  const Manifest manifest = read_manifest(directory);
  const auto listed = std::ranges::find(manifest.files, path.filename().string(), &CheckpointFile::name);
  if (listed != manifest.files.end()) verify_file(directory, *listed);
}

/// The folder that holds the checkpoints of a run.
fs::path checkpoints_below(const fs::path& directory) {
  return fs::is_directory(directory / "checkpoints") ? directory / "checkpoints" : directory;
}

}  // namespace

FileInspection inspect_file(const fs::path& path, Links links) {
  FileInspection found{.path = path};
  found.problem = problem_of([&] {
    found.bytes = file_bytes(open_regular(path, O_RDONLY, links).get(), path);
    const SafetensorsFile file(path);
    found.tensors = file.tensors();
    found.metadata = file.metadata();
    compare_with_manifest(path);
  });
  return found;
}

CheckpointInspection inspect_checkpoint(const fs::path& path) {
  CheckpointInspection found{.path = path};
  found.problem = problem_of([&] {
    try {
      found.manifest = read_manifest(path);
    } catch (const DamageError&) {
      throw;
    } catch (const Error& problem) {
      found.is_unknown = problem.code() == ExitCode::data;
      throw;
    }
  });
  if (!found.manifest) return found;
  for (const CheckpointFile& expected : found.manifest->files) {
    const std::string problem = problem_of([&] { verify_file(path, expected); });
    found.files.push_back({expected, problem});
    if (found.problem.empty()) found.problem = problem;
    if (expected.name == kStateFile && problem.empty())
      found.state = read_text(path / kStateFile, Links::refuse).value_or("");
  }
  const int64_t named = checkpoint_step(path);
  if (found.problem.empty() && named >= 0 && named != found.manifest->step) {
    found.problem = fmt::format("{}: belongs to step {}, its directory's name to step {}",
                                one_line((path / kManifestFile).string()), found.manifest->step, named);
  }
  return found;
}

RunInspection inspect_run(const fs::path& path) {
  RunInspection found{.path = path, .overview = look_at_run(path)};
  for (const fs::path& checkpoint : list_checkpoints(checkpoints_below(path)))
    found.checkpoints.push_back(inspect_checkpoint(checkpoint));
  found.set_aside = list_set_aside(checkpoints_below(path));
  for (const char* name : {kModelFile, kBestFile, kAveragesFile}) {
    if (!fs::exists(fs::symlink_status(path / name))) continue;
    found.weights.push_back(inspect_file(path / name, Links::refuse));
  }
  return found;
}

bool is_checkpoint(const fs::path& directory) {
  if (fs::exists(directory / kManifestFile) || checkpoint_step(directory) >= 0) return true;
  if (look_at_run(directory) || !list_checkpoints(checkpoints_below(directory)).empty()) return false;
  throw Error(
      ExitCode::data,
      fmt::format(
          "{}: neither a checkpoint (no {}) nor a run's directory; name one of them, or a safetensors file",
          one_line(directory.string()), kManifestFile));
}

}  // namespace trainer
