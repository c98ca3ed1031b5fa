// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Text escaped for HTML: no character of it begins a tag or ends an attribute. Control characters but line
/// breaks and tabs, and bytes that are not UTF-8, become U+FFFD.
std::string escaped(std::string_view text);

/// A table with a head and cells of plain text; columns of numbers are right-aligned. The row `best` is
/// highlighted.
std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows,
                       std::optional<size_t> best = std::nullopt);

/// A section that a reader opens and closes, with this content.
std::string folded(const std::string& title, const std::string& content, bool is_open = false);

/// A whole page, for light and dark screens, wide and narrow ones, and for print.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace trainer
