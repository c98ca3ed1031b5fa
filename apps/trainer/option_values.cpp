// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/option_values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace trainer {

void make_count(CLI::Option& option) {
  option.check(CLI::PositiveNumber.description(""))->type_name("N");
}

void make_number(CLI::Option& option, double least, double most) {
  option.check(CLI::Validator(
      [](std::string& text) {
        const bool is_nan = text.find_first_of("nN") != std::string::npos;
        return is_nan ? fmt::format("Value {} is not a number", text) : std::string();
      },
      ""));
  option.check(CLI::Range(least, most).description(""));
}

void make_choice(CLI::Option& option, const std::vector<std::string>& names) {
  option.check(CLI::IsMember(names).description(""))->type_name(fmt::format("{}", fmt::join(names, "|")));
}

}  // namespace trainer
