// SPDX-License-Identifier: Apache-2.0
#include "core/track/address.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/printable.h"

namespace trainer {
namespace {

bool is_plain(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

/// A space, a control character, or a byte beyond ASCII.
bool is_foreign(char c) {
  return c <= ' ' || c >= '\x7f';
}

}  // namespace

std::string address_problem(const std::string& uri) {
  constexpr const char* kExample = "write an address such as http://localhost:5000";
  if (uri.find('@') != std::string::npos) {
    return "an address has no user and no password, which a run's directory would keep; set "
           "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, or write them "
           "in "
           "~/.netrc";
  }
  const bool has_scheme = uri.starts_with("http://") || uri.starts_with("https://");
  const std::string got = one_line(uri);
  if (!has_scheme)
    return fmt::format("expected an address that begins with http:// or https://, got '{}'; {}", got,
                       kExample);
  const std::string rest = uri.substr(uri.find("//") + 2);
  if (rest.empty() || rest.starts_with('/') || rest.starts_with(':'))
    return fmt::format("the address '{}' names no host; {}", got, kExample);
  if (rest.find_first_of("?#\\") != std::string::npos || std::ranges::any_of(rest, is_foreign))
    return fmt::format("the address '{}' has a character that none may have (?, #, \\, a space); {}", got,
                       kExample);
  return "";
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (is_plain(c)) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace trainer
