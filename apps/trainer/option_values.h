// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class Option;
}

namespace trainer {

/// The option takes a number from 1 on.
void make_count(CLI::Option& option);

/// The option takes a number within these bounds. CLI11's own checks accept "nan", which no comparison
/// excludes.
void make_number(CLI::Option& option, double least, double most);

/// The option takes one of these names.
void make_choice(CLI::Option& option, const std::vector<std::string>& names);

}  // namespace trainer
