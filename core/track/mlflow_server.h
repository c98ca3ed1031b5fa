// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/track/http.h"

namespace trainer {

/// A request to a tracker without success.
class TrackerError : public Error {
 public:
  enum class Remedy {
    retry,  ///< no answer, or a server in trouble: the same request may succeed later
    drop,   ///< the server refuses these values: others may succeed
    stop,   ///< it refuses everything until somebody changes something
  };
  TrackerError(Remedy kind, const std::string& text) : Error(ExitCode::io, text), remedy(kind) {}
  const Remedy remedy;
};

/// An MLflow server through its REST interface, version 2.0. Every method throws TrackerError.
class MlflowServer {
 public:
  struct Run {
    std::string id;
    std::string artifacts;  ///< the address where MLflow stores them
  };
  struct NewRun {
    std::string experiment;
    std::string key;  ///< the value of the tag `trainer.run`
    std::string name;
    int64_t start_ms = 0;
  };
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  /// Limits of one request.
  static constexpr size_t kMostMetrics = 1000, kMostPairs = 100;

  MlflowServer(std::string uri, HttpClient& http) : uri_(std::move(uri)), http_(http) {}

  /// The run with this key in the experiment, or a new one: the answer to an earlier request may have been
  /// lost. Creates the experiment if it is missing.
  Run open_run(const NewRun& wanted);
  /// Each metric is {key, value, timestamp, step}. At most so many of each as the limits above.
  void log(const std::string& run, const std::vector<Json>& metrics, const Pairs& parameters,
           const Pairs& tags);
  /// RUNNING, FINISHED, FAILED or KILLED; the last three with the time of the end, in Unix milliseconds.
  void set_status(const std::string& run, const std::string& status, int64_t end_ms);
  /// Whether files of a run reach its artifacts through this server.
  static bool takes_files(const Run& run);
  void upload(const Run& run, const std::string& name, std::string bytes);

 private:
  std::string experiment_id(const std::string& name);
  bool takes_values(const std::string& run);
  static std::string gone(const std::string& refusal);
  Json call(const std::string& method, std::string_view path, const Json& body);
  Json post(std::string_view path, const Json& body) { return call("POST", path, body); }

  std::string uri_;  // without a slash at its end
  HttpClient& http_;
};

}  // namespace trainer
