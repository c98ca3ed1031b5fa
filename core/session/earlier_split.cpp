// SPDX-License-Identifier: Apache-2.0
#include "core/session/earlier_split.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/run/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStratify = "data.stratify";

[[noreturn]] void refuse(const Recipe& recipe, const fs::path& directory, const std::string& use) {
  fail_at(
      recipe.origin_of("data.val_fraction"),
      fmt::format("takes its share of each class now, but the run in {} was begun when it did not, so its "
                  "validation has other samples; set data.stratify=false to {}",
                  one_line(directory.string()), use));
}

bool is_other_split(const Difference& difference) {
  return difference.path == kStratify && difference.after == "true";
}

}  // namespace

void require_no_earlier_split(const Recipe& recipe) {
  if (!recipe.stratifies()) return;
  const fs::path present = recipe.output_directory();
  fs::path directory = present;
  if (const auto earlier = recipe.earlier_run(); earlier && !fs::exists(present))
    directory = earlier->directory;
  const std::optional<RunIdentity> stored = stored_identity(directory);
  if (!stored) return;
  const auto all = differences(*stored, recipe.identity());
  if (all.size() != 1 || !is_other_split(all.front())) return;
  refuse(recipe, directory,
         directory == present ? "resume it" : "resume it, or data.stratify=true to begin another run");
}

void require_split_of(const Recipe& recipe, const fs::path& weights) {
  if (!recipe.stratifies()) return;
  const fs::path folder = fs::absolute(weights).lexically_normal().parent_path();
  for (const fs::path& directory :
       {folder, folder.parent_path().parent_path()}) {  // of a run, or a checkpoint
    const std::optional<RunIdentity> stored = stored_identity(directory);
    if (!stored) continue;
    if (std::ranges::any_of(differences(*stored, recipe.identity()), is_other_split))
      refuse(recipe, directory, "evaluate it with its own");
    return;
  }
}

}  // namespace trainer
