// SPDX-License-Identifier: Apache-2.0
#include "core/run/resume.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/storage/atomic_file.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDifferenceFile = "replicas-differed.txt";

ResumePoint open_checkpoint(const fs::path& path) {
  const Manifest manifest = verify_checkpoint(path);
  const fs::path file = path / kStateFile;
  ResumePoint point{path,
                    parse_run_state(read_text(file, Links::refuse).value_or(""), one_line(file.string()))};
  if (point.state.loop.step != manifest.step) {
    throw Error(ExitCode::data, fmt::format("{}: belongs to step {}, the manifest to step {}",
                                            one_line(file.string()), point.state.loop.step, manifest.step));
  }
  return point;
}

}  // namespace

fs::path checkpoint_root(const fs::path& run) {
  return run / "checkpoints";
}

void note_difference(const fs::path& root, const std::string& text) {
  fs::create_directories(root);
  write_atomically(root / kDifferenceFile, text + "\n");
}

void forget_difference(const fs::path& root) {
  std::error_code ignored;
  fs::remove(root / kDifferenceFile, ignored);
}

std::optional<ResumePoint> newest_checkpoint(const fs::path& root, const Warn& warn) {
  std::error_code ignored;
  const bool wants_verified = fs::exists(root / kDifferenceFile, ignored);
  std::optional<ResumePoint> unverified;
  for (const fs::path& path : list_checkpoints(root)) {
    const auto skip = [&](const std::string& why) {
      warn(fmt::format("skipping checkpoint {}: {}", one_line(path.filename().string()), why));
    };
    try {
      ResumePoint point = open_checkpoint(path);
      if (!wants_verified || point.state.loop.is_verified()) return point;
      skip(
          "the last run found that its ranks' weights differed, and they were not compared before this save");
      if (!unverified) unverified = std::move(point);
    } catch (const Error& problem) {
      skip(problem.what());
    }
  }
  if (unverified)
    warn(fmt::format("no checkpoint was verified; using {} after all, which may hold wrong weights",
                     unverified->checkpoint.filename().string()));
  return unverified;
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
