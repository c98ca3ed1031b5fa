// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/csv_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/regular_file.h"
#include "core/metrics/csv_row.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

std::string row_of(const MetricsRecord& record, const std::vector<std::string>& metrics) {
  std::map<std::string, std::string> values = {
      {"split", record.split}, {"event", record.event.value_or("")}, {"reason", record.reason.value_or("")}};
  for (const auto& [key, number] : numbers_of(record))
    values[key] = std::visit([](auto value) { return fmt::format("{}", value); }, number);
  std::vector<std::string> cells;
  for (const std::string& key : record_keys(metrics)) cells.push_back(values[key]);
  return csv_row(cells);
}

}  // namespace

CsvFile::CsvFile(const std::filesystem::path& path, const std::filesystem::path& lines,
                 std::vector<std::string> metrics)
    : CsvFile(std::make_shared<FileDescriptor>(open_file(directory_of(path), O_RDONLY | O_DIRECTORY)), path,
              lines, std::move(metrics)) {}

CsvFile::CsvFile(std::shared_ptr<const FileDescriptor> directory, const std::filesystem::path& path,
                 const std::filesystem::path& lines, std::vector<std::string> metrics)
    : path_(path), lines_(lines), metrics_(std::move(metrics)), directory_(std::move(directory)) {
  rewrite();
}

void CsvFile::append(const MetricsRecord& record) {
  if (note_metrics(record)) return rewrite();
  const int error = write_all(file_.get(), row_of(record, metrics_));
  if (error != 0) throw io_error(path_, "write", error);
}

/// Whether the record has a metric that the table has no column for yet.
bool CsvFile::note_metrics(const MetricsRecord& record) {
  const size_t known = metrics_.size();
  for (const auto& [name, value] : record.metrics) {
    if (std::ranges::find(metrics_, name) == metrics_.end()) metrics_.push_back(name);
  }
  return metrics_.size() != known;
}

void CsvFile::rewrite() {
  read_records(lines_, [this](const MetricsRecord& record) { note_metrics(record); });
  std::string text = csv_row(record_keys(metrics_));
  read_records(lines_, [&](const MetricsRecord& record) { text += row_of(record, metrics_); });
  write_atomically(*directory_, path_, text);
  file_ = open_regular(path_, O_WRONLY | O_APPEND, Links::refuse);
}

}  // namespace trainer
