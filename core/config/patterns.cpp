// SPDX-License-Identifier: Apache-2.0
#include "core/config/patterns.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "core/config/fields.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

/// Where the `parts`-th part of a name between dots ends.
size_t end_of_part(const std::string& name, size_t parts) {
  size_t end = 0;
  for (size_t i = 0; i < parts; ++i) end = std::min(name.find('.', end + (i > 0)), name.size());
  return end;
}

/// Suggestions for the pattern: its parts before the first wildcard are replaced by those of each name. Each
/// suggestion matches a name.
std::vector<std::string> candidates(const std::string& pattern, const std::vector<std::string>& names) {
  const size_t wild = std::min(pattern.find_first_of("*?["), pattern.size());
  const std::string plain = pattern.substr(0, wild);
  auto parts = static_cast<size_t>(std::count(plain.begin(), plain.end(), '.'));
  if (wild == pattern.size()) ++parts;  // no wildcard: all of it
  const std::string rest = pattern.substr(end_of_part(pattern, parts));
  std::set<std::string> found;
  for (const std::string& name : names) found.insert(name.substr(0, end_of_part(name, parts)) + rest);
  std::erase_if(found, [&](const std::string& candidate) {
    return std::ranges::none_of(names, [&](const std::string& name) { return matches(candidate, name); });
  });
  return {found.begin(), found.end()};
}

/// The first parts of all names, each once, in their order.
std::vector<std::string> first_parts(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const std::string part = name.substr(0, name.find('.')) + ".*";
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  return parts;
}

}  // namespace

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

void check_patterns(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                    const std::string& what, const Origin& origin, Diagnostics& diagnostics) {
  for (const std::string& pattern : patterns) {
    const bool is_used = std::any_of(names.begin(), names.end(),
                                     [&](const std::string& name) { return matches(pattern, name); });
    if (is_used) continue;
    const auto near = nearest(pattern, candidates(pattern, names));
    diagnostics.error(origin, fmt::format("no {} matches '{}'{}", what, shown(pattern),
                                          near ? fmt::format("; did you mean '{}'?", *near)
                                               : fmt::format("; available: {}", listed(first_parts(names)))));
  }
}

}  // namespace trainer
