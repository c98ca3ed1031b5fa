// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// The files that a path or a pattern names, in the order of their names; none if there are none. `*` stands
/// for any text within a name, `?` for a character, `{000..127}` for each of these numbers, and a folder `**`
/// for any number of folders, also for none. There, hidden folders and links to folders are passed over.
/// Throws Error: exit 78 if a folder is named in place of a file (the message proposes names with this
/// ending) or if there are too many numbers, 74 if a folder cannot be read.
std::vector<std::string> files_of_pattern(const std::string& pattern, const std::string& ending = ".txt");

/// Of the paths and patterns that it stands for, by its numbers, those that name no file.
std::vector<std::string> missing_of_pattern(const std::string& pattern);

}  // namespace trainer
