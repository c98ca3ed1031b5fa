// SPDX-License-Identifier: Apache-2.0
#include "core/run/resume.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDifferenceFile = "replicas-differed.txt";

/// The same problem, with a remedy for a checkpoint that may be intact.
Error refusal(const fs::path& path, const Error& problem) {
  return Error(
      problem.code(),
      fmt::format("{}; nothing was changed; start again when that is mended, or move {} "
                  "out of {} to use the checkpoint before it",
                  problem.what(), one_line(path.filename().string()), one_line(path.parent_path().string())));
}

}  // namespace

RunState read_state(const fs::path& checkpoint, const Manifest& manifest) {
  const fs::path file = checkpoint / kStateFile;
  const auto listed = std::ranges::find(manifest.files, kStateFile, &CheckpointFile::name);
  if (listed == manifest.files.end()) {
    throw Error(ExitCode::data, fmt::format("{}: lists no {}, as checkpoints of this version do",
                                            one_line((checkpoint / kManifestFile).string()), kStateFile));
  }
  verify_file(checkpoint, *listed);
  const std::string text = read_text(file, Links::refuse).value_or("");
  // The parsed bytes must be the verified ones.
  if (checksum(std::as_bytes(std::span(text))) != listed->checksum)
    throw Error(ExitCode::io, fmt::format("{}: changed while it was read", one_line(file.string())));
  return parse_run_state(text, one_line(file.string()));
}

ResumePoint open_checkpoint(const fs::path& path) {
  const Manifest manifest = verify_checkpoint(path);
  ResumePoint point{path, read_state(path, manifest)};
  if (point.state.loop.step != manifest.step) {
    throw Error(ExitCode::data,
                fmt::format("{}: belongs to step {}, the manifest to step {}",
                            one_line((path / kStateFile).string()), point.state.loop.step, manifest.step));
  }
  return point;
}

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
  std::vector<fs::path> skipped;
  for (const fs::path& path : list_checkpoints(root)) {
    const auto skip = [&](const std::string& why) {
      warn(fmt::format("skipping checkpoint {}: {}", one_line(path.filename().string()), why));
      skipped.push_back(path);
    };
    try {
      ResumePoint point = open_checkpoint(path);
      point.skipped = skipped;
      if (!wants_verified || point.state.loop.is_verified()) return point;
      skip(
          "the last run found that its ranks' weights differed, and they were not compared before this save");
      if (!unverified) unverified = std::move(point);
    } catch (const DamageError& problem) {
      skip(problem.what());
    } catch (const Error& problem) {
      throw refusal(path, problem);
    }
  }
  if (unverified)
    warn(fmt::format("no checkpoint was verified; using {} after all, which may hold wrong weights",
                     unverified->checkpoint.filename().string()));
  return unverified;
}

ResumePoint checkpoint_at(const FilePath& given, const Warn& warn) {
  const fs::path path = given.resolved;
  if (is_there(path / kManifestFile)) return open_checkpoint(path);
  for (const fs::path& root : {checkpoint_root(path), path}) {
    if (auto point = newest_checkpoint(root, warn)) return *std::move(point);
  }
  throw Error(
      ExitCode::data,
      fmt::format("{} is neither a checkpoint nor a run with an intact one; correct run.resume, or remove it",
                  with_base(given)));
}

std::vector<Difference> differences_from(const ResumePoint& point, const RunIdentity& here,
                                         const std::vector<std::string>& allowed) {
  if (point.state.mathematics == here.mathematics) return {};
  const std::optional<RunIdentity> there = parse_identity(point.state.mathematics);
  if (there) return forbidden_differences(*there, here, allowed);
  throw Error(ExitCode::data, fmt::format("{}: the keys of its run cannot be read; resume from another one",
                                          one_line(point.checkpoint.string())));
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
