// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// What is wrong with the address of a tracker's server, for a message; empty if nothing is. It may contain
/// no password: then the text does not repeat it.
std::string address_problem(const std::string& uri);

/// Bytes of a name within an address: all but letters, digits and `-._~` become `%2F`.
std::string percent_encoded(std::string_view text);

}  // namespace trainer
