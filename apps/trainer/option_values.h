// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class Option;
}

namespace trainer {

/// The option takes a whole number within these bounds.
void make_count(CLI::Option& option, int64_t least = 1, int64_t most = std::numeric_limits<int64_t>::max());

/// The option takes a number within these bounds, which nan is not.
void make_number(CLI::Option& option, double least, double most);

/// The largest batch that an option takes.
constexpr int64_t kMostBatch = int64_t{1} << 20;

/// Reads whole numbers from 1 to `most` with commas between. Throws Error (exit 64), which names `option`.
std::vector<int64_t> parse_counts(const std::string& option, const std::string& text, int64_t most);

/// The option takes one of these names.
void make_choice(CLI::Option& option, const std::vector<std::string>& names);

}  // namespace trainer
