// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/base/file.h"
#include "core/metrics/metrics.h"

namespace trainer {

/// The records of a metrics.jsonl as TensorBoard reads them: `train/loss`, `validation/top1`, … over the
/// steps, as f32. Throws Error (exit 74; 65 for a metrics.jsonl that cannot be read).
class EventFile {
 public:
  /// Replaces all event files in the directory by a new one with the contents of `lines`.
  EventFile(const std::filesystem::path& directory, const std::filesystem::path& lines);

  const std::filesystem::path& path() const { return path_; }
  void append(const MetricsRecord& record);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace trainer
