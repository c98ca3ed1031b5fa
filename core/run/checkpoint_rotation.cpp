// SPDX-License-Identifier: Apache-2.0
#include "core/run/checkpoint_rotation.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/storage/checkpoint.h"

namespace trainer {

namespace fs = std::filesystem;

void CheckpointRotation::leave(const fs::path& checkpoint, const std::string& why) {
  if (left_.insert(checkpoint).second)
    warn_(fmt::format("{} neither counts nor is removed: {}", one_line(checkpoint.string()), why));
}

void CheckpointRotation::set_aside(const std::vector<fs::path>& skipped) {
  for (const fs::path& checkpoint : skipped) {
    settings_.require_held();
    try {
      warn_(fmt::format("the skipped checkpoint is kept as {}, which no run uses or removes",
                        one_line(trainer::set_aside(checkpoint).string())));
    } catch (const Error& problem) {
      leave(checkpoint, problem.what());
    }
  }
}

bool CheckpointRotation::is_of_run(const ResumePoint& point) {
  const auto different = differences_from(point, settings_.run, settings_.allow_changes);
  if (!different.empty())
    leave(point.checkpoint, fmt::format("it belongs to another run ({})", difference_text(different)));
  return different.empty();
}

/// Reads one completely that this process has neither written nor verified.
bool CheckpointRotation::is_intact(const fs::path& checkpoint) {
  const int64_t step = checkpoint_step(checkpoint);
  if (intact_.contains(step)) return true;
  if (left_.contains(checkpoint)) return false;
  try {
    if (!is_of_run(open_checkpoint(checkpoint))) return false;
    add(step);
    return true;
  } catch (const DamageError& problem) {
    warn_(problem.what());
    set_aside({checkpoint});
  } catch (const Error& problem) {
    leave(checkpoint, problem.what());
  }
  return false;
}

/// Its state says which run it is of, and is read alone: an old checkpoint is large.
bool CheckpointRotation::may_remove(const fs::path& checkpoint) try {
  if (intact_.contains(checkpoint_step(checkpoint))) return true;
  if (left_.contains(checkpoint)) return false;
  const Manifest manifest = read_manifest(checkpoint);
  if (manifest.step != checkpoint_step(checkpoint))
    throw Error(ExitCode::data, fmt::format("it belongs to step {}", manifest.step));
  return is_of_run({.checkpoint = checkpoint, .state = read_state(checkpoint, manifest)});
} catch (const Error& problem) {
  leave(checkpoint, problem.what());
  return false;
}

void CheckpointRotation::make_room(int64_t step) {
  for (const fs::path& path : list_checkpoints(settings_.root)) {
    if (checkpoint_step(path) != step || is_intact(path) || !is_there(path)) continue;
    throw Error(
        ExitCode::io,
        fmt::format("{}: a checkpoint of this step is there that may not be replaced; move it elsewhere",
                    one_line(path.string())));
  }
}

void CheckpointRotation::remove_old(int64_t newest, int64_t best) {
  std::vector<fs::path> saved;
  try {
    saved = list_checkpoints(settings_.root);
  } catch (const Error& problem) {
    warn_(problem.what());  // after the next save, perhaps
  }
  std::erase_if(saved, [&](const fs::path& path) { return checkpoint_step(path) > newest; });
  const auto may_stay = [&](const fs::path& path) { return checkpoint_step(path) == best; };
  const auto latest = std::min(std::ssize(saved), settings_.keep_latest);
  if (std::all_of(saved.begin() + latest, saved.end(), may_stay)) return;  // by name alone: none is read
  int64_t kept = 0;
  for (const fs::path& path : saved) {
    if (kept < settings_.keep_latest) {
      kept += is_intact(path) ? 1 : 0;
    } else if (!may_stay(path) && may_remove(path)) {
      settings_.require_held();
      try {
        remove_checkpoint(path);
      } catch (const Error& problem) {
        leave(path, problem.what());  // after the next save it may be possible to remove it
      }
    }
  }
}

}  // namespace trainer
