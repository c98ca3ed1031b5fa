// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// The files that a path or a pattern names, in the order of their names; none if there are none. `*` stands
/// for any text within a name, `?` for a character, and a folder `**` for any number of folders, also for
/// none. There, hidden folders and links to folders are passed over. Throws Error: exit 78 if a folder is
/// named in place of a file, 74 if a folder cannot be read.
std::vector<std::string> files_of_pattern(const std::string& pattern);

}  // namespace trainer
