// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace trainer {

/// Reads a finite decimal number, with blanks around it, correctly rounded. False for another text.
bool parse_number(std::string_view text, double& number);

/// Whether a field stands for a missing value: one of pandas' texts, such as "", NA, NaN and null.
bool is_missing_value(std::string_view field);

}  // namespace trainer
