// SPDX-License-Identifier: Apache-2.0
#include "core/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/json.h"
#include "core/base/version.h"
#include "core/report/style.h"

namespace trainer {
namespace {

/// With U+FFFD in place of bytes that are not UTF-8.
std::string as_utf8(std::string_view text) {
  return Json::parse_or_null(Json(text).dump(-1, Json::NotUtf8::replace)).text();
}

bool is_number(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.,+-eE% ") == std::string::npos;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : as_utf8(text)) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&') {
      html += "&amp;";
    } else if (c == '<') {
      html += "&lt;";
    } else if (c == '>') {
      html += "&gt;";
    } else if (c == '"') {
      html += "&quot;";
    } else if (c == '\'') {
      html += "&#39;";
    } else if ((code < 0x20 && c != '\n' && c != '\t') || code == 0x7f) {
      html += "\xEF\xBF\xBD";
    } else {
      html += c;
    }
  }
  return html;
}

std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows, std::optional<size_t> best) {
  // A head stands above its numbers.
  std::vector<bool> has_numbers(head.size(), !rows.empty());
  for (const std::vector<std::string>& row : rows)
    for (size_t i = 0; i < std::min(row.size(), head.size()); ++i)
      has_numbers[i] = has_numbers[i] && (row[i].empty() || is_number(row[i]));
  std::string html = "<table><thead><tr>";
  for (size_t i = 0; i < head.size(); ++i)
    html += fmt::format("<th{}>{}</th>", has_numbers[i] ? " class=\"n\"" : "", escaped(head[i]));
  html += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    html += i == best ? "<tr class=\"best\">" : "<tr>";
    for (size_t j = 0; j < rows[i].size(); ++j)
      html += fmt::format("<td{}>{}</td>", j < head.size() && has_numbers[j] ? " class=\"n\"" : "",
                          escaped(rows[i][j]));
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string folded(const std::string& title, const std::string& content, bool is_open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", is_open ? " open=\"\"" : "",
                     escaped(title), content);
}

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{}</style></head>\n"
      "<body>\n{}<footer>written by trainer {}</footer>\n</body></html>\n",
      escaped(title), kStyle, body, kVersion);
}

}  // namespace trainer
