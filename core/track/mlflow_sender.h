// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/track/http.h"
#include "core/track/mlflow_server.h"
#include "core/track/mlflow_state.h"
#include "core/track/pending_lines.h"

namespace trainer {

/// A run that an MLflow server is to have.
struct TrackedRun {
  std::filesystem::path directory;
  std::string uri, experiment;
  std::map<std::string, std::string> parameters;  ///< the recipe's keys and values
  std::function<std::string()> report;            ///< makes the page report.html
};

/// Sends a run's parameters and the lines of its metrics.jsonl, request by request, and at the end its files.
/// What the server has confirmed is noted in the run's directory (MlflowState), so another process can go on
/// at any time. Methods throw TrackerError, or Error (exit 65, 74) for the run's own files.
class MlflowSender {
 public:
  /// `note` is called with what the user should know, though the sender goes on.
  MlflowSender(TrackedRun run, HttpClient& http, std::function<void(const std::string&)> note);

  /// The run trains: the server shows it as running.
  void set_running() { must_set_running_ = true; }
  /// Sends something. Returns false if nothing is left.
  bool advance();
  /// Uploads the run's files, and ends it on the server with this status.
  void finish(const std::string& status);

 private:
  void send_parameters();
  void choose_lines();
  void send_lines();
  void log(const std::vector<Json>& metrics, const MlflowServer::Pairs& parameters,
           const MlflowServer::Pairs& tags);
  void upload(const std::string& name, const std::function<std::optional<std::string>()>& content);

  TrackedRun run_;
  MlflowServer server_;
  std::function<void(const std::string&)> note_;
  std::optional<MlflowState> state_;
  PendingLines lines_;
  std::vector<PendingLines::Line> batch_;  ///< sent until the server confirms it
  bool must_set_running_ = false, has_noted_refusal_ = false;
};

/// A name as MLflow takes it: letters, digits, `_`, `-`, `.`, `/` and spaces, at most 250. `layers[3]`
/// becomes `layers.3`.
std::string mlflow_name(const std::string& name);

/// The numbers of a record as MLflow's metrics `train/loss`, …: {key, value, timestamp, step}.
std::vector<Json> mlflow_metrics(const MetricsRecord& record);

}  // namespace trainer
