// SPDX-License-Identifier: Apache-2.0
#include "core/report/html.h"

#include <fmt/format.h>

#include "core/base/json.h"

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
                       const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table><thead><tr>";
  for (const std::string& cell : head) html += fmt::format("<th>{}</th>", escaped(cell));
  html += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row)
      html += fmt::format("<td{}>{}</td>", is_number(cell) ? " class=\"n\"" : "", escaped(cell));
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace trainer
