// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "core/base/version.h"
#include "core/config/environment.h"
#include "core/config/fields.h"
#include "core/config/messages.h"
#include "core/config/old_keys.h"

namespace trainer {
namespace {

constexpr size_t kDifferencesShown = 3;

/// Whether a key, or one that it is below, may differ.
bool is_allowed(const std::string& path, const std::vector<std::string>& allowed) {
  return std::ranges::any_of(allowed, [&](const std::string& listed) {
    const std::string key = under_new_name({listed, ""}).path;
    return path.starts_with(key) &&
           (path.size() == key.size() || path[key.size()] == '.' || path[key.size()] == '[');
  });
}

}  // namespace

RunIdentity identity_of(const Value& resolved) {
  return {.mathematics = to_yaml(resolved, false), .values = leaves(resolved), .program_version = kVersion};
}

std::optional<RunIdentity> parse_identity(const std::string& mathematics) {
  Diagnostics diagnostics;
  const Value stored = parse_yaml(mathematics, "", diagnostics);
  if (!diagnostics.ok()) return std::nullopt;
  return RunIdentity{.mathematics = mathematics, .values = leaves(stored), .program_version = ""};
}

std::string text_hash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return fmt::format("{:016x}", hash);
}

std::string expand_name(const std::string& pattern,
                        const std::function<std::optional<std::string>(const std::string& key)>& lookup,
                        const Origin& origin, Diagnostics& diagnostics,
                        const std::vector<std::string>& known) {
  std::string result;
  size_t position = 0;
  while (true) {
    const size_t open = pattern.find('{', position);
    result += pattern.substr(position, open - position);
    if (open == std::string::npos) return result;
    const size_t close = pattern.find('}', open);
    if (close == std::string::npos) {
      diagnostics.error(origin, fmt::format("\"{}\" opens a brace that is not closed", pattern));
      return result;
    }
    const std::string key = pattern.substr(open + 1, close - open - 1);
    if (const std::optional<std::string> value = lookup(key)) {
      result += *value;
    } else {
      const std::optional<std::string> guess = nearest(key, known);
      diagnostics.error(origin, fmt::format("{{{}}} is not a key of this recipe{}", shown(key),
                                            guess ? fmt::format(", did you mean {{{}}}?", *guess) : ""));
    }
    position = close + 1;
  }
}

std::vector<Difference> differences(const RunIdentity& before, const RunIdentity& after) {
  std::vector<Difference> result;
  const auto add = [&](const std::string& path, const std::string& there, const std::string& here) {
    const auto [name, value] = under_new_name({path, there});
    result.push_back({name, value, under_new_name({path, here}).value});
  };
  for (const auto& [path, value] : before.values) {
    const auto found = after.values.find(path);
    const std::string now = found == after.values.end() ? "" : found->second;
    if (!is_same_leaf(path, value, now)) add(path, value, now);
  }
  for (const auto& [path, value] : after.values) {
    if (!before.values.contains(path)) add(path, "", value);
  }
  return result;
}

std::vector<Difference> forbidden_differences(const RunIdentity& before, const RunIdentity& after,
                                              const std::vector<std::string>& allowed) {
  std::vector<Difference> all = differences(before, after);
  std::erase_if(all, [&](const Difference& difference) { return is_allowed(difference.path, allowed); });
  return all;
}

std::string difference_text(const std::vector<Difference>& all) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < all.size() && i < kDifferencesShown; ++i) {
    const Difference& each = all[i];
    if (is_hidden(each.before) || is_hidden(each.after)) {
      parts.push_back(
          fmt::format("{}, which an environment variable gives, has another value there; neither "
                      "is shown",
                      each.path));
      continue;
    }
    const auto text_of = [](const std::string& value) { return value.empty() ? "absent" : value; };
    parts.push_back(
        fmt::format("{} is {} there and {} here", each.path, text_of(each.before), text_of(each.after)));
  }
  std::set<std::string> sections;
  for (size_t i = parts.size(); i < all.size(); ++i)
    sections.insert(all[i].path.substr(0, all[i].path.find_first_of(".[")));
  if (!sections.empty())
    parts.push_back(fmt::format("{} more in {}", all.size() - parts.size(), fmt::join(sections, ", ")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace trainer
