// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/file.h"
#include "core/metrics/metrics.h"
#include "core/track/mlflow_server.h"

namespace trainer {

/// What an MLflow server has of a run: the file mlflow.jsonl in the run's directory, one JSON object for each
/// request that the server has confirmed. A request without an answer may have been done: its lines are kept
/// in mlflow.sending until they are confirmed, since the server ignores only what is exactly the same. Locked
/// until destroyed, since two senders would send everything twice.
class MlflowState {
 public:
  /// Of a run with that address and experiment; what is known of another server is removed. Throws Error
  /// (exit 74), also if another process sends.
  MlflowState(const std::filesystem::path& run, const std::string& uri, const std::string& experiment);

  /// Made up once, so that the run is found again on the server.
  const std::string& key() const { return key_; }
  const std::optional<MlflowServer::Run>& run() const { return run_; }
  bool has_parameters() const { return has_parameters_; }
  /// The lines of metrics.jsonl that were sent, in their short form (PendingLines).
  std::unordered_set<int64_t> sent_lines() const;

  void note_run(const MlflowServer::Run& run);
  void note_parameters();
  void note_lines(const std::vector<int64_t>& lines);

  /// The lines that were being sent when the last process ended.
  std::vector<MetricsRecord> being_sent() const;
  void note_being_sent(const std::string& lines);

 private:
  bool read(const std::string& uri, const std::string& experiment);
  void append(const Json& object);

  std::filesystem::path path_, sending_path_;
  FileDescriptor file_;
  std::string key_;
  std::optional<MlflowServer::Run> run_;
  bool has_parameters_ = false;
};

}  // namespace trainer
