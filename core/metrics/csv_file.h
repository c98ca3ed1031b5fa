// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/metrics/metrics.h"

namespace trainer {

/// The records of a metrics.jsonl as a table for spreadsheets: a head, then a row each (RFC 4180, line
/// feeds). Values missing from a record are empty. Throws Error (exit 74; 65 for a metrics.jsonl that cannot
/// be read).
class CsvFile {
 public:
  /// Replaces the contents of `path` by those of `lines`. Metrics have these names; a record with others
  /// widens the table.
  CsvFile(const std::filesystem::path& path, const std::filesystem::path& lines,
          std::vector<std::string> metrics);
  /// The same in this directory, whatever is at its path by now.
  CsvFile(std::shared_ptr<const FileDescriptor> directory, const std::filesystem::path& path,
          const std::filesystem::path& lines, std::vector<std::string> metrics);

  /// The record is in `lines` already, or waits to be written.
  void append(const MetricsRecord& record);

 private:
  bool note_metrics(const MetricsRecord& record);
  void rewrite();

  std::filesystem::path path_, lines_;
  std::vector<std::string> metrics_;
  std::shared_ptr<const FileDescriptor> directory_;
  FileDescriptor file_;
};

}  // namespace trainer
