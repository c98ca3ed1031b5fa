// SPDX-License-Identifier: Apache-2.0
#include "core/data/skipped_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/printable.h"

namespace trainer {
namespace {

/// Names come from outside: numbered files may have a million endings, and a long one is no type.
constexpr size_t kMostTypes = 100, kLongestEnding = 12, kShownTypes = 8;
constexpr const char* kOthers = "of other types";

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_side_file(const std::string& name, const std::string& ending) {
  constexpr std::array<std::string_view, 3> kNames = {"thumbs.db", "ehthumbs.db", "desktop.ini"};
  return name.starts_with('.') || ending == ".csv" || ending == ".tsv" ||
         std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace

void SkippedFiles::add_file(const std::filesystem::path& path) {
  const std::string name = lower_case(path.filename().string());
  const std::string ending = lower_case(path.extension().string());
  if (is_side_file(name, ending)) return;
  if (ending.size() > kLongestEnding) return add(kOthers);
  add(ending.size() < 2 ? "without an ending" : ending);
}

void SkippedFiles::add(const std::string& type, int64_t count) {
  if (count == 0) return;
  const bool is_full = count_.size() >= kMostTypes && !count_.contains(type);
  count_[is_full ? kOthers : type] += count;
}

int64_t SkippedFiles::total() const {
  int64_t sum = 0;
  for (const auto& [type, count] : count_) sum += count;
  return sum;
}

std::string SkippedFiles::text() const {
  if (count_.empty()) return "";
  std::vector<std::pair<std::string, int64_t>> types(count_.begin(), count_.end());
  std::ranges::stable_sort(types, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  int64_t rest = total();
  for (size_t i = 0; i < std::min(types.size(), kShownTypes); rest -= types[i++].second)
    parts.push_back(fmt::format("{} {}", types[i].second, one_line(types[i].first)));
  if (rest > 0) parts.push_back(fmt::format("{} of {} more types", rest, types.size() - kShownTypes));
  std::string advice;
  if (count_.contains(".dcm")) advice += std::string("; ") + kConvertDicom;
  if (count_.contains(".heic") || count_.contains(".heif")) advice += std::string("; ") + kConvertHeic;
  return fmt::format("{} skipped: {}{}", total(), fmt::join(parts, ", "), advice);
}

}  // namespace trainer
