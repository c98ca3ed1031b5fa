// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer {

/// Where a command writes shards: FILE, or a folder with SPLIT_000000.ENDING and so on.
struct ShardOutput {
  std::string out;            ///< --out
  std::string split, ending;  ///< of the names: "train", "bin"
  std::string unit, option;   ///< for messages: "tokens", "--shard-tokens"
  int64_t asked = 0;          ///< the option: units of a shard, which asks for a folder; 0: not given
  int64_t most = 0;           ///< units of a shard without the option
  int64_t most_of_file = 0;   ///< units that FILE can have

  int64_t of_shard() const { return asked > 0 ? asked : most; }
  /// Whether --out names a folder.
  bool is_folder() const;
};

/// The files to write for a number of units, in order. Makes the folder. Throws Error (exit 64) if it has
/// such shards already, if a file is in its place, or if FILE is too small.
std::vector<std::filesystem::path> shard_paths(const ShardOutput& output, int64_t units);

}  // namespace trainer
