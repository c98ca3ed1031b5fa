// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trainer {

/// What one device costs in an hour, by its name; in whatever currency the user has.
using Prices = std::map<std::string, double>;

/// Reads `h100=2.5` or several with commas between; a later price of a device replaces an earlier one. Throws
/// Error (exit 64) for a device that is not in `known`, and for a price that is not a number from 0.
Prices read_prices(const std::vector<std::string>& given, const std::vector<std::string>& known);

}  // namespace trainer
