// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "core/config/fields.h"

namespace trainer {
namespace {

constexpr size_t kDifferencesShown = 3;

/// What encloses a line: a key, or an item of a list.
struct Level {
  size_t indent;
  bool is_item;
  int64_t index;
  std::string name;
};

std::string path_of(const std::vector<Level>& levels) {
  std::string path;
  for (const Level& level : levels) {
    if (level.is_item) {
      path += fmt::format("[{}]", level.index);
    } else {
      path += path.empty() ? level.name : "." + level.name;
    }
  }
  return path;
}

/// Enters the item of a list that starts at column `indent`; "- " may stand under its key's own column.
void enter_item(std::vector<Level>& levels, size_t indent) {
  int64_t index = 0;
  while (!levels.empty() &&
         (levels.back().indent > indent || (levels.back().indent == indent && levels.back().is_item))) {
    if (levels.back().indent == indent) index = levels.back().index + 1;
    levels.pop_back();
  }
  levels.push_back({indent, true, index, ""});
}

/// The value of each leaf, by its path.
std::map<std::string, std::string> leaves(std::string_view text) {
  std::map<std::string, std::string> result;
  std::vector<Level> levels;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t indent = std::min(line.find_first_not_of(' '), line.size());
    line.remove_prefix(indent);
    while (line.starts_with("- ")) {
      enter_item(levels, indent);
      const size_t width = std::min(line.find_first_not_of(' ', 1), line.size());
      line.remove_prefix(width);
      indent += width;
    }
    if (line.empty()) continue;
    const size_t colon = line.ends_with(':') ? line.size() - 1 : line.find(": ");
    if (colon != std::string_view::npos && !line.starts_with('{') && !line.starts_with('[')) {
      while (!levels.empty() && levels.back().indent >= indent) levels.pop_back();
      levels.push_back({indent, false, 0, std::string(line.substr(0, colon))});
      line.remove_prefix(std::min(colon + 2, line.size()));
    }
    if (!line.empty()) result[path_of(levels)] = line;
  }
  return result;
}

/// Whether a key, or one that it is below, may differ.
bool is_allowed(const std::string& path, const std::vector<std::string>& allowed) {
  return std::ranges::any_of(allowed, [&](const std::string& key) {
    return path.starts_with(key) &&
           (path.size() == key.size() || path[key.size()] == '.' || path[key.size()] == '[');
  });
}

}  // namespace

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
      diagnostics.error(origin, fmt::format("{{{}}} stands for no key of this recipe{}", key,
                                            guess ? fmt::format(", did you mean {{{}}}?", *guess) : ""));
    }
    position = close + 1;
  }
}

std::vector<Difference> differences(std::string_view before, std::string_view after) {
  const std::map<std::string, std::string> old_leaves = leaves(before), new_leaves = leaves(after);
  std::vector<Difference> result;
  for (const auto& [path, value] : old_leaves) {
    const auto found = new_leaves.find(path);
    const std::string now = found == new_leaves.end() ? "" : found->second;
    if (now != value) result.push_back({path, value, now});
  }
  for (const auto& [path, value] : new_leaves) {
    if (!old_leaves.contains(path)) result.push_back({path, "", value});
  }
  return result;
}

std::vector<Difference> forbidden_differences(std::string_view before, std::string_view after,
                                              const std::vector<std::string>& allowed) {
  std::vector<Difference> all = differences(before, after);
  std::erase_if(all, [&](const Difference& difference) { return is_allowed(difference.path, allowed); });
  return all;
}

std::string difference_text(const std::vector<Difference>& all) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < all.size() && i < kDifferencesShown; ++i) {
    const auto shown = [](const std::string& value) { return value.empty() ? "absent" : value; };
    parts.push_back(
        fmt::format("{} is {} there and {} here", all[i].path, shown(all[i].before), shown(all[i].after)));
  }
  if (all.size() > parts.size()) parts.push_back(fmt::format("{} more", all.size() - parts.size()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace trainer
