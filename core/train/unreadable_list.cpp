// SPDX-License-Identifier: Apache-2.0
#include "core/train/unreadable_list.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/base/split.h"
#include "core/engine/group_operations.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

constexpr const char* kRank = " (on rank ";
constexpr const char* kLines = "lines";
constexpr const char* kNumbers = "numbers";

}  // namespace

/// The list of an earlier run in the same directory does not belong to this one.
UnreadableList::UnreadableList(std::filesystem::path file, Log& log, bool goes_on)
    : file_(std::move(file)), log_(log) {
  std::error_code ignored;
  if (!goes_on && !file_.empty()) std::filesystem::remove(file_, ignored);
  for (const std::string& line : split(read_text(file_, Links::refuse).value_or(""), '\n')) {
    const size_t end = std::min(line.rfind(kRank), line.size());
    lines_.emplace(line.substr(0, end), line.substr(end));
  }
}

bool UnreadableList::report() {
  bool is_any = false, is_longer = false;
  for (const auto& [split, source] : sources_) {
    for (const UnreadableSample& sample : source->take_unreadable()) {
      const std::string line = one_line(sample.name + ": " + sample.reason);
      const bool is_new = lines_.emplace(line, "").second;
      new_lines_.push_back(line);
      if (is_new) log_.warn(line + "; using the next readable sample instead");
      is_any = true;
      is_longer = is_longer || is_new;
    }
  }
  if (is_longer || is_behind_) write();
  return is_any;
}

void UnreadableList::share(ProcessGroup& group) {
  report();
  if (group.size() == 1) return;
  const Json own = {{kLines, std::exchange(new_lines_, {})}, {kNumbers, numbers()}};
  const std::vector<std::string> texts = all_gather(group, own.dump(-1, Json::NotUtf8::replace));
  std::vector<Json> all;
  for (const std::string& text : texts) all.push_back(Json::parse_or_null(text));
  const size_t before = lines_.size();
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    if (rank != group.rank()) add(all[static_cast<size_t>(rank)], rank);
  }
  if (lines_.size() > before) write();
  run_on_all(group, [&] {
    for (const Json& found : all) count(found);
  });
}

void UnreadableList::add(const Json& found, int64_t rank) {
  for (const Json& line : found[kLines].items())
    lines_.emplace(line.text(), rank == 0 ? "" : fmt::format("{}{})", kRank, rank));
}

void UnreadableList::count(const Json& found) {
  for (const auto& [split, source] : sources_) {
    const Json* numbers = found[kNumbers].find(split);
    if (numbers == nullptr) continue;
    std::vector<int64_t> samples;
    for (const Json& number : numbers->items()) samples.push_back(number.integer().value());
    source->count_unreadable(samples);
  }
}

void UnreadableList::write() {
  if (file_.empty()) return;
  std::string text;
  for (const auto& [line, rank] : lines_) text += line + rank + "\n";
  try {
    write_atomically(file_, text);
    is_behind_ = false;
  } catch (const Error& problem) {
    if (!is_behind_) log_.warn(fmt::format("{}; will retry", problem.what()));
    is_behind_ = true;
  }
}

std::map<std::string, std::vector<int64_t>> UnreadableList::numbers() const {
  std::map<std::string, std::vector<int64_t>> all;
  for (const auto& [split, source] : sources_) {
    if (std::vector<int64_t> samples = source->unreadable(); !samples.empty())
      all[split] = std::move(samples);
  }
  return all;
}

}  // namespace trainer
