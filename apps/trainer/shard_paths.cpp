// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/shard_paths.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/data/file_pattern.h"

namespace trainer {

namespace fs = std::filesystem;

bool ShardOutput::is_folder() const {
  return asked > 0 || fs::is_directory(out) || !fs::path(out).has_filename();
}

std::vector<fs::path> shard_paths(const ShardOutput& output, int64_t units) {
  const fs::path out = output.out;
  const auto refuse = [&](const std::string& problem) {
    return Error(ExitCode::usage, fmt::format("--out {}: {}", output.out, problem));
  };
  if (!output.is_folder()) {
    if (units <= output.most_of_file) return {out};
    throw refuse(fmt::format("a shard holds at most {} {}, and there are {}; name a folder and {}",
                             output.most_of_file, output.unit, units, output.option));
  }
  if (fs::exists(out) && !fs::is_directory(out)) throw refuse("expected a folder for shards, found a file");
  make_directories(out);
  const std::string pattern = (out / fmt::format("{}_*.{}", output.split, output.ending)).string();
  if (!files_of_pattern(pattern).empty())
    throw refuse(fmt::format("there are shards {} already; remove them, or name another folder", pattern));
  std::vector<fs::path> paths;
  for (int64_t i = 0; i * output.of_shard() < units; ++i)
    paths.push_back(out / fmt::format("{}_{:06}.{}", output.split, i, output.ending));
  return paths;
}

}  // namespace trainer
