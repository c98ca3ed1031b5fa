// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_history.h"

#include <charconv>
#include <set>
#include <string_view>

#include "core/base/regular_file.h"

namespace trainer {

RunHistory read_history(const std::filesystem::path& directory) {
  RunHistory history;
  const std::filesystem::path path = directory / "metrics.jsonl";
  int64_t number = 0;
  read_lines(path, Links::refuse, [&](const std::string& line, bool is_ended) {
    ++number;
    if (!is_ended) return;
    std::optional<MetricsRecord> record = parse_record(line);
    if (!record) {
      history.unreadable.push_back(number);
      return;
    }
    std::vector<MetricsRecord>& records = record->split == "train"        ? history.training
                                          : record->split == "validation" ? history.validation
                                                                          : history.guard;
    records.push_back(std::move(*record));
  });
  return history;
}

std::vector<int64_t> read_resumes(const std::filesystem::path& directory) {
  // A rollback's line has the word "warning" before these.
  constexpr std::string_view kWords = "Z resuming after step ";
  constexpr size_t kTime = std::string_view("2000-01-01T00:00:00").size(), kMost = 1000;
  std::set<int64_t> steps;
  read_lines(directory / "log.txt", Links::refuse, [&](const std::string& line, bool) {
    if (line.size() <= kTime || line.compare(kTime, kWords.size(), kWords) != 0 || steps.size() == kMost)
      return;
    int64_t step = 0;
    const char* begin = line.data() + kTime + kWords.size();
    if (std::from_chars(begin, line.data() + line.size(), step).ec == std::errc()) steps.insert(step);
  });
  return {steps.begin(), steps.end()};
}

}  // namespace trainer
