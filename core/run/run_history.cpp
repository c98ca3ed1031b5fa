// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_history.h"

#include <fstream>

#include "core/base/file.h"

namespace trainer {

RunHistory read_history(const std::filesystem::path& directory) {
  RunHistory history;
  const std::filesystem::path path = directory / "metrics.jsonl";
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return history;
  std::ifstream lines(path, std::ios::binary);
  if (!lines) throw io_error(path, "opening the file", errno);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (lines.eof()) break;  // without its end
    std::optional<MetricsRecord> record = parse_record(line);
    if (!record) {
      history.unreadable.push_back(number);
      continue;
    }
    std::vector<MetricsRecord>& records = record->split == "train"        ? history.training
                                          : record->split == "validation" ? history.validation
                                                                          : history.guard;
    records.push_back(std::move(*record));
  }
  return history;
}

}  // namespace trainer
