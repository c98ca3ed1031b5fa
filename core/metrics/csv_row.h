// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// A line of a table for spreadsheets (RFC 4180, a line feed at its end): values are in quotes if they
/// contain what separates values, or begin or end with a blank.
std::string csv_row(const std::vector<std::string>& values);

}  // namespace trainer
