// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/option_values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <system_error>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/split.h"
#include "core/config/scalar_values.h"

namespace trainer {

namespace {

/// Says what was expected, in place of CLI11's text, which prints bounds with hundreds of digits.
template <class T>
void take_from(CLI::Option& option, T least, T most, const std::string& expected) {
  option.check(CLI::Validator(
      [=](const std::string& text) {
        T value{};
        const bool fits = parse_whole(text, value) == std::errc() && value >= least && value <= most;
        return fits ? std::string() : fmt::format("expected {}, got '{}'", expected, text);
      },
      ""));
}

}  // namespace

void make_count(CLI::Option& option, int64_t least, int64_t most) {
  const bool is_open = most == std::numeric_limits<int64_t>::max();
  take_from(*option.type_name("N"), least, most,
            is_open ? fmt::format("a whole number of at least {}", least)
                    : fmt::format("a whole number from {} to {}", least, most));
}

void make_number(CLI::Option& option, double least, double most) {
  take_from(option, least, most, fmt::format("a number from {:g} to {:g}", least, most));
}

std::vector<int64_t> parse_counts(const std::string& option, const std::string& text, int64_t most) {
  std::vector<int64_t> counts;
  for (const std::string& part : split(text + ",", ',')) {
    int64_t count = 0;
    if (parse_whole(part, count) != std::errc() || count < 1 || count > most) {
      throw Error(
          ExitCode::usage,
          fmt::format("{}: expected whole numbers from 1 to {} with commas between, as in 1,32, got '{}'",
                      option, most, one_line(text)));
    }
    counts.push_back(count);
  }
  return counts;
}

void make_choice(CLI::Option& option, const std::vector<std::string>& names) {
  option.check(CLI::IsMember(names).description(""))->type_name(fmt::format("{}", fmt::join(names, "|")));
}

}  // namespace trainer
