// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Text escaped for HTML: no character of it begins a tag or ends an attribute. Control characters but line
/// breaks and tabs, and bytes that are not UTF-8, become U+FFFD.
std::string escaped(std::string_view text);

/// A table with a head and cells of plain text; columns of numbers are right-aligned.
std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows);

}  // namespace trainer
