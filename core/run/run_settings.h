// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trainer {

/// The values of a recipe by their keys: `optimizer.lr` is "0.1".
using Settings = std::map<std::string, std::string>;

/// A key of a recipe whose value is not its default.
struct ChangedSetting {
  std::string key, value;
  std::string usual;  ///< the default; empty if the key has none
};

/// Of the run in this directory, from its recipe.yaml; none if that is missing or cannot be read.
Settings read_settings(const std::filesystem::path& directory);

/// The keys with values that are not the same in all of them, by their interest. Keys that only say where a
/// run is, such as run.output_dir, do not count, and neither do runs without settings.
std::vector<std::string> differing_keys(const std::vector<Settings>& runs);

/// The place of a key in a table: learning rate, batch and optimiser first, the machine's keys last.
int interest_in(const std::string& key);

/// The shortest end of each key that distinguishes it from the others: `lr` for `optimizer.lr`.
std::vector<std::string> short_names(const std::vector<std::string>& keys);

}  // namespace trainer
