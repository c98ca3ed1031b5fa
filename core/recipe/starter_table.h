// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer {

/// The facts about a table that a first recipe is made from.
struct TableStarter {
  std::filesystem::path train;  ///< as the recipe should write it
  std::string target;
  std::vector<std::string> ignored;  ///< columns that name the rows
  std::string time;                  ///< a column of dates, or empty; the recipe makes no series of it
  int64_t samples = 0;               ///< rows with a target
  int64_t without_target = 0;
  int64_t numbers = 0, categories = 0, category_rows = 0;  ///< columns; see TablePreparation::category_rows
  int64_t classes = 0;                                     ///< 0: the target has numbers
};

/// What `trainer init` finds in a table. A column of texts has classes, and so has one of few whole numbers.
/// Throws Error as read_table does, exit 64 for a target that is no column.
TableStarter measure_table(const std::filesystem::path& file, const std::string& target, int64_t threads);

/// A commented recipe for the table: layers that are fully connected, with an embedding of its categories.
std::string table_starter_recipe(const TableStarter& starter);

}  // namespace trainer
