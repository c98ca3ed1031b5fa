// SPDX-License-Identifier: Apache-2.0
#include "core/optim/layer_depth.h"

#include <algorithm>
#include <map>

namespace trainer {
namespace {

bool is_number(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
}

/// "layer1.0" of "layer1.0.conv1.weight": everything through the first numbers, which something follows.
/// Empty if the name has none.
std::string block_of(const std::string& name) {
  size_t begin = 0, block = 0;
  for (size_t end = name.find('.'); end != std::string::npos; end = name.find('.', begin)) {
    const bool counts = is_number(name.substr(begin, end - begin));
    if (!counts && block > 0) break;
    if (counts) block = end;
    begin = end + 1;
  }
  return name.substr(0, block);
}

std::string layer_of(const std::string& name) {
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

}  // namespace

std::vector<int64_t> depths_from_top(const std::vector<std::string>& names) {
  const bool has_blocks =
      std::ranges::any_of(names, [](const auto& name) { return !block_of(name).empty(); });
  std::map<std::string, int64_t> known;  // levels of blocks, or of layers
  std::vector<int64_t> levels;
  int64_t count = 0;
  bool is_between = false;  // the last level is one of layers outside blocks
  for (const std::string& name : names) {
    const std::string key = has_blocks ? block_of(name) : layer_of(name);
    if (key.empty()) {
      if (!is_between) ++count;
      levels.push_back(count - 1);
      is_between = true;
      continue;
    }
    const auto [place, is_new] = known.emplace(key, count);
    if (is_new) ++count;
    if (is_new) is_between = false;
    levels.push_back(place->second);
  }
  for (int64_t& level : levels) level = count - 1 - level;
  return levels;
}

}  // namespace trainer
