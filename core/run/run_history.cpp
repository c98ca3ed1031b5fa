// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_history.h"

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

}  // namespace trainer
