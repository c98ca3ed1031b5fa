// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run_list.h"
#include "core/run/run_settings.h"

namespace trainer {

struct ListedRun {
  RunOverview overview;
  Settings settings;
};

/// The run in this directory. Throws Error (exit 64) if there is none.
RunOverview run_in(const std::filesystem::path& directory);

/// The run with its recipe's values; without them if they cannot be read, which becomes one of its problems.
ListedRun with_settings(RunOverview run);

/// The runs in and below a directory, as list_runs finds them.
std::vector<ListedRun> list_runs_with_settings(const std::filesystem::path& root);

/// Sorts by a column of the table or by a key of the recipe, `optimizer.lr` or an end of it that names one
/// key. The best and the newest run come first; other numbers and texts ascend; runs without a value come
/// last. Throws Error (exit 64) if no run has that key.
void sort_runs(std::vector<ListedRun>& runs, const std::string& key);

/// A run's path below `root`, without line breaks.
std::string name_of(const RunOverview& run, const std::filesystem::path& root);

/// The end of a name, which distinguishes runs.
std::string shortened_name(const std::string& text, size_t width);

/// The number that a value of a recipe begins with: 5 of "5ep".
std::optional<double> leading_number(const std::string& text);

/// A table that fits the terminal; elsewhere it is at most 100 columns wide, or 120 with keys in which the
/// runs differ. Keys that do not fit are left out.
void print_run_table(const std::vector<ListedRun>& runs, const std::filesystem::path& root);

}  // namespace trainer
