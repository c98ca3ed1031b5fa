// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// A pattern of Oniguruma, in its syntax of Ruby, as PCRE2 reads it: `\s` is Unicode's White_Space, `\p{Han}`
/// the script itself. Throws Error (exit 78), "PLACE: ...", for constructs without an equivalent.
std::string pcre2_pattern(const std::string& pattern, const std::string& place);

}  // namespace trainer
