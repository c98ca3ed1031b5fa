// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/option_values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <system_error>

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

void make_choice(CLI::Option& option, const std::vector<std::string>& names) {
  option.check(CLI::IsMember(names).description(""))->type_name(fmt::format("{}", fmt::join(names, "|")));
}

}  // namespace trainer
