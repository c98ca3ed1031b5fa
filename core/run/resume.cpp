// SPDX-License-Identifier: Apache-2.0
#include "core/run/resume.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

ResumePoint open_checkpoint(const fs::path& path) {
  const Manifest manifest = verify_checkpoint(path);
  const fs::path file = path / kStateFile;
  ResumePoint point{path, parse_run_state(read_text(file).value_or(""), file.string())};
  if (point.state.loop.step != manifest.step) {
    throw Error(ExitCode::data, fmt::format("{}: belongs to step {}, the manifest to step {}", file.string(),
                                            point.state.loop.step, manifest.step));
  }
  return point;
}

}  // namespace

fs::path checkpoint_root(const fs::path& run) {
  return run / "checkpoints";
}

std::optional<ResumePoint> newest_checkpoint(const fs::path& root, const Warn& warn) {
  for (const fs::path& path : list_checkpoints(root)) {
    try {
      return open_checkpoint(path);
    } catch (const Error& problem) {
      warn(fmt::format("skipping checkpoint {}: {}", path.filename().string(), problem.what()));
    }
  }
  return std::nullopt;
}

ResumePoint checkpoint_at(const FilePath& given, const Warn& warn) {
  const fs::path path = given.resolved;
  std::error_code ignored;
  if (fs::exists(path / kManifestFile, ignored)) return open_checkpoint(path);
  for (const fs::path& root : {checkpoint_root(path), path}) {
    if (auto point = newest_checkpoint(root, warn)) return *std::move(point);
  }
  throw Error(
      ExitCode::data,
      fmt::format("{} is neither a checkpoint nor a run with an intact one; correct run.resume, or remove it",
                  with_base(given)));
}

std::vector<std::string> changed_facts(const std::map<std::string, std::string>& there,
                                       const std::map<std::string, std::string>& here) {
  std::vector<std::string> sentences;
  for (const auto& [name, value] : here) {
    const auto before = there.find(name);
    if (before != there.end() && before->second != value)
      sentences.push_back(fmt::format("{} was {} and is now {}", name, before->second, value));
  }
  return sentences;
}

}  // namespace trainer
