// SPDX-License-Identifier: Apache-2.0
#include "core/host/cgroup.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <utility>

#include "core/base/small_file.h"
#include "core/base/split.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLevels = 64, kMostMounts = 16;

/// A number above 0, perhaps with an end of line.
std::optional<int64_t> parse_positive(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  int64_t value = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || stop != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

bool has_part(std::string_view text, char separator, std::string_view part) {
  const std::vector<std::string> parts = split(text, separator);
  return std::ranges::find(parts, part) != parts.end();
}

/// The process's group in one hierarchy: of lines "4:memory,hugetlb:/path", or "0::/path" for version 2.
std::optional<std::string> group_in(std::string_view groups, std::string_view controller) {
  for (const std::string& line : split(groups, '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const bool is_it = controller.empty() ? line.starts_with("0::") : has_part(controllers, ',', controller);
    std::string path = line.substr(second + 1);
    if (is_it && path.starts_with('/') && path.size() < PATH_MAX) return path;
  }
  return std::nullopt;
}

/// The kernel writes blanks and backslashes in paths as octal numbers: "\040".
std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(digits, digits + 3, value, 8).ptr == digits + 3) {
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// A mounted hierarchy, or the part of it below the group `root`.
struct Mount {
  std::string root, point;
};

/// Of lines "32 23 0:28 ROOT POINT rw,relatime - cgroup cgroup rw,memory".
std::vector<Mount> mounts_of(std::string_view mounts, std::string_view controller) {
  constexpr size_t kRoot = 3, kPoint = 4;
  std::vector<Mount> found;
  for (const std::string& line : split(mounts, '\n')) {
    const size_t middle = line.find(" - ");
    if (middle == std::string::npos) continue;
    const std::vector<std::string> place = split(std::string_view(line).substr(0, middle), ' ');
    const std::vector<std::string> kind = split(std::string_view(line).substr(middle + 3), ' ');
    if (place.size() <= kPoint || kind.empty()) continue;
    const bool is_it = controller.empty() ? kind[0] == "cgroup2"
                                          : kind[0] == "cgroup" && has_part(kind.back(), ',', controller);
    Mount mount{unescaped(place[kRoot]), unescaped(place[kPoint])};
    if (is_it && mount.point.starts_with('/') && mount.point.size() < PATH_MAX)
      found.push_back(std::move(mount));
    if (found.size() == kMostMounts) break;
  }
  return found;
}

/// The group's path below the mount point: "" or "/path"; nothing if it is not below. A group outside of the
/// process's namespace begins with "/..".
std::optional<std::string> path_below(const Mount& mount, const std::string& group) {
  const std::string root = mount.root == "/" ? "" : mount.root;
  if (has_part(group, '/', "..") || has_part(root, '/', "..") || !group.starts_with(root))
    return std::nullopt;
  std::string rest = group.substr(root.size());
  if (rest == "/") rest.clear();
  if (!rest.empty() && !rest.starts_with('/')) return std::nullopt;
  return rest;
}

void keep_least(std::optional<int64_t>& least, std::optional<int64_t> bytes) {
  if (bytes) least = std::min(least.value_or(*bytes), *bytes);
}

void keep_least(CgroupLimits& limits, std::optional<double> cpus, const char* file) {
  if (!cpus || (limits.cpus && *limits.cpus <= *cpus)) return;
  limits.cpus = cpus;
  limits.cpus_file = file;
}

}  // namespace

std::vector<std::string> cgroup_directories(std::string_view groups, std::string_view mounts,
                                            std::string_view controller) {
  const std::optional<std::string> group = group_in(groups, controller);
  if (!group) return {};
  std::vector<std::string> inside, points;
  for (const Mount& mount : mounts_of(mounts, controller)) {
    points.push_back(mount.point);
    std::optional<std::string> rest = path_below(mount, *group);
    if (!rest) continue;
    for (size_t level = 0; !rest->empty() && level < kMostLevels; ++level) {
      inside.push_back(mount.point + *rest);
      rest->erase(rest->rfind('/'));
    }
    inside.push_back(mount.point);
  }
  return inside.empty() ? points : inside;
}

std::optional<int64_t> parse_cgroup_bytes(std::string_view text) {
  return parse_positive(text);
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto quota = parse_positive(text.substr(0, blank)), period = parse_positive(text.substr(blank + 1));
  if (!quota || !period) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

/// Of "oom_kill N" in memory.events, or in memory.oom_control of version 1.
int64_t cgroup_memory_kills(const fs::path& root) {
  const std::string groups = read_small_file(root / "proc/self/cgroup").value_or("");
  const std::string mounts = read_small_file(root / "proc/self/mountinfo").value_or("");
  for (const auto& [controller, file] :
       {std::pair{"", "memory.events"}, std::pair{"memory", "memory.oom_control"}}) {
    for (const fs::path directory : cgroup_directories(groups, mounts, controller)) {
      const auto text = read_small_file(root / directory.relative_path() / file);
      if (!text) continue;
      for (const std::string& line : split(*text, '\n')) {
        constexpr std::string_view kName = "oom_kill ";
        if (line.starts_with(kName)) return parse_positive(line.substr(kName.size())).value_or(0);
      }
    }
  }
  return 0;
}

CgroupLimits read_cgroup_limits(const fs::path& root) {
  const auto read = [&](const fs::path& directory, const char* file) {
    return read_small_file(root / directory.relative_path() / file).value_or("");
  };
  const std::string groups = read_small_file(root / "proc/self/cgroup").value_or("");
  const std::string mounts = read_small_file(root / "proc/self/mountinfo").value_or("");
  CgroupLimits limits;
  for (const fs::path directory : cgroup_directories(groups, mounts, "")) {
    for (const char* file : {"memory.max", "memory.high"})
      keep_least(limits.memory, parse_cgroup_bytes(read(directory, file)));
    keep_least(limits, parse_cpu_max(read(directory, "cpu.max")), "cpu.max");
  }
  for (const fs::path directory : cgroup_directories(groups, mounts, "memory"))
    keep_least(limits.memory, parse_cgroup_bytes(read(directory, "memory.limit_in_bytes")));
  for (const fs::path directory : cgroup_directories(groups, mounts, "cpu")) {
    std::string quota = read(directory, "cpu.cfs_quota_us");
    if (quota.ends_with('\n')) quota.back() = ' ';
    keep_least(limits, parse_cpu_max(quota + read(directory, "cpu.cfs_period_us")), "cpu.cfs_quota_us");
  }
  return limits;
}

}  // namespace trainer
