// SPDX-License-Identifier: Apache-2.0
#include "core/track/mlflow_server.h"

#include <fmt/format.h>

#include <optional>

#include "core/base/printable.h"
#include "core/base/split.h"
#include "core/track/address.h"
#include "core/track/json_text.h"

namespace trainer {
namespace {

using Remedy = TrackerError::Remedy;

constexpr const char* kAbsent = "RESOURCE_DOES_NOT_EXIST";
constexpr const char* kThere = "RESOURCE_ALREADY_EXISTS";

/// The scheme of artifacts that clients send to the server itself.
constexpr std::string_view kThroughServer = "mlflow-artifacts:/";

/// A message of the server may be a page of HTML.
constexpr size_t kMostMessage = 300;

/// A refusal with the code that the server gives it.
class Refusal : public TrackerError {
 public:
  Refusal(Remedy kind, const std::string& text, std::string name)
      : TrackerError(kind, text), code_name(std::move(name)) {}
  const std::string code_name;
};

Json pairs_json(const MlflowServer::Pairs& pairs) {
  Json all = Json::array();
  for (const auto& [key, value] : pairs) all.push_back(Json{{"key", key}, {"value", value}});
  return all;
}

/// Throws unless the answer is a success.
void require_success(const std::string& uri, const HttpResponse& response) {
  const int64_t status = response.status;
  if (status >= 200 && status < 300) return;
  if (status == 401 || status == 403) {
    throw TrackerError(Remedy::stop,
                       fmt::format("{} refuses the credentials (HTTP {}): check MLFLOW_TRACKING_TOKEN, "
                                   "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or ~/.netrc",
                                   uri, status));
  }
  if (status >= 300 && status < 400) {
    throw TrackerError(Remedy::stop, fmt::format("{} redirects to another address (HTTP {}): write that one "
                                                 "in logging.mlflow.uri",
                                                 uri, status));
  }
  const Json error = Json::parse_or_null(response.body);
  const std::string name = text_in(error, "error_code");
  const std::string message = one_line(text_in(error, "message").substr(0, kMostMessage));
  if (status >= 500 || status == 408 || status == 429)
    throw TrackerError(Remedy::retry, fmt::format("{} answers HTTP {} {}", uri, status, message));
  if (name.empty()) {
    throw TrackerError(Remedy::stop, fmt::format("{} answers HTTP {}: it is not the address of an MLflow "
                                                 "server; correct logging.mlflow.uri",
                                                 uri, status));
  }
  throw Refusal(Remedy::drop, fmt::format("{} answers {}: {}", uri, name, message), name);
}

/// A value that an answer must have.
std::string required(const std::string& uri, const Json& object, std::string_view key) {
  std::string text = text_in(object, key);
  if (text.empty())
    throw TrackerError(Remedy::stop, fmt::format("{} answers without {}: it is not the address of an MLflow "
                                                 "server; correct logging.mlflow.uri",
                                                 uri, key));
  return text;
}

const Json& member(const Json& object, std::string_view key) {
  static const Json nothing;
  const Json* found = object.find(key);
  return found == nullptr ? nothing : *found;
}

}  // namespace

Json MlflowServer::call(const std::string& method, std::string_view path, const Json& body) {
  HttpRequest request{.method = method, .url = fmt::format("{}/api/2.0/mlflow/{}", uri_, path)};
  if (!body.is_null()) {
    request.body = body.dump(-1, Json::NotUtf8::replace);
    request.content_type = "application/json";
  }
  HttpResponse response;
  try {
    response = http_.send(request);
  } catch (const Error& problem) {
    throw TrackerError(Remedy::retry, fmt::format("{} does not answer: {}", uri_, problem.what()));
  }
  require_success(uri_, response);
  Json answer = Json::parse_or_null(response.body);
  // A page to log in has this status as well.
  if (!answer.is_object())
    throw TrackerError(Remedy::retry,
                       fmt::format("{} answers HTTP {} with something else than JSON: a proxy may want "
                                   "a login",
                                   uri_, response.status));
  return answer;
}

std::string MlflowServer::experiment_id(const std::string& name) {
  const auto find = [&]() -> std::optional<std::string> {
    try {
      const Json found =
          call("GET", "experiments/get-by-name?experiment_name=" + percent_encoded(name), Json());
      const Json& experiment = member(found, "experiment");
      if (text_in(experiment, "lifecycle_stage") == "deleted") {
        throw TrackerError(Remedy::stop,
                           fmt::format("{} has deleted the experiment '{}': restore it, or choose another "
                                       "logging.mlflow.experiment",
                                       uri_, one_line(name)));
      }
      return required(uri_, experiment, "experiment_id");
    } catch (const Refusal& refusal) {
      if (refusal.code_name != kAbsent) throw;
      return std::nullopt;
    }
  };
  if (const auto found = find()) return *found;
  try {
    return required(uri_, post("experiments/create", Json{{"name", name}}), "experiment_id");
  } catch (const Refusal& refusal) {  // another run has made it meanwhile
    const auto found = refusal.code_name == kThere ? find() : std::nullopt;
    if (!found) throw;
    return *found;
  }
}

MlflowServer::Run MlflowServer::open_run(const NewRun& wanted) try {
  const std::string experiment = experiment_id(wanted.experiment);
  const Json found =
      post("runs/search", Json{{"experiment_ids", Json::array({experiment})},
                               {"filter", fmt::format("tags.`trainer.run` = '{}'", wanted.key)},
                               {"max_results", 1}});
  const Json& runs = member(found, "runs");
  const bool is_there = runs.is_array() && !runs.empty();
  Json created;
  if (!is_there) {
    const Pairs tags = {{"trainer.run", wanted.key}, {"mlflow.source.name", "trainer"}};
    created = post("runs/create", Json{{"experiment_id", experiment},
                                       {"run_name", wanted.name},
                                       {"start_time", wanted.start_ms},
                                       {"tags", pairs_json(tags)}});
  }
  const Json& info = member(is_there ? runs.items().front() : member(created, "run"), "info");
  return {required(uri_, info, "run_id"), text_in(info, "artifact_uri")};
} catch (const Refusal& refusal) {
  throw TrackerError(Remedy::stop, refusal.what());
}

/// Restored, or made anew: both need a hand.
std::string MlflowServer::gone(const std::string& refusal) {
  return refusal +
         "; if the run was deleted there, restore it, or remove mlflow.jsonl from the run's "
         "directory to send all again";
}

/// A server gives the same code for a value and for a run that it refuses, so ask it about the run.
bool MlflowServer::takes_values(const std::string& run) try {
  const Json found = call("GET", "runs/get?run_id=" + percent_encoded(run), Json());
  return text_in(member(member(found, "run"), "info"), "lifecycle_stage") != "deleted";
} catch (const Refusal&) {
  return false;
}

void MlflowServer::log(const std::string& run, const std::vector<Json>& metrics, const Pairs& parameters,
                       const Pairs& tags) try {
  Json body{{"run_id", run}};
  if (!metrics.empty()) body["metrics"] = metrics;
  if (!parameters.empty()) body["params"] = pairs_json(parameters);
  if (!tags.empty()) body["tags"] = pairs_json(tags);
  post("runs/log-batch", body);
} catch (const Refusal& refusal) {
  if (!takes_values(run)) throw TrackerError(Remedy::stop, gone(refusal.what()));
  throw;
}

void MlflowServer::set_status(const std::string& run, const std::string& status, int64_t end_ms) try {
  Json body{{"run_id", run}, {"status", status}};
  if (status != "RUNNING") body["end_time"] = end_ms;
  post("runs/update", body);
} catch (const Refusal& refusal) {
  throw TrackerError(Remedy::stop, gone(refusal.what()));
}

bool MlflowServer::takes_files(const Run& run) {
  return run.artifacts.starts_with(kThroughServer) &&
         !std::string_view(run.artifacts).substr(kThroughServer.size()).starts_with('/');
}

void MlflowServer::upload(const Run& run, const std::string& name, std::string bytes) {
  std::string url = uri_ + "/api/2.0/mlflow-artifacts/artifacts";
  for (const std::string& part : split(run.artifacts.substr(kThroughServer.size()), '/'))
    url += "/" + percent_encoded(part);
  url += "/" + percent_encoded(name);
  const HttpRequest request{
      .method = "PUT", .url = url, .body = std::move(bytes), .content_type = "application/octet-stream"};
  try {
    require_success(uri_, http_.send(request));
  } catch (const TrackerError&) {
    throw;
  } catch (const Error& problem) {
    throw TrackerError(Remedy::retry, fmt::format("{} does not answer: {}", uri_, problem.what()));
  }
}

}  // namespace trainer
