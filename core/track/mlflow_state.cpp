// SPDX-License-Identifier: Apache-2.0
#include "core/track/mlflow_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/track/json_text.h"

namespace trainer {
namespace {

constexpr const char* kUri = "uri";
constexpr const char* kExperiment = "experiment";
constexpr const char* kKey = "key";
constexpr const char* kRun = "run_id";
constexpr const char* kArtifacts = "artifact_uri";
constexpr const char* kParameters = "parameters";
constexpr const char* kLines = "lines";

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw io_error("random numbers", "getrandom", errno);
  std::string name;
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

}  // namespace

MlflowState::MlflowState(const std::filesystem::path& run, const std::string& uri,
                         const std::string& experiment)
    : path_(run / "mlflow.jsonl"),
      sending_path_(run / "mlflow.sending"),
      file_(open_regular(path_, O_RDWR | O_CREAT | O_APPEND, Links::refuse)) {
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Error(ExitCode::io, fmt::format("{}: another process sends this run's metrics; wait for its end",
                                          one_line(path_.string())));
  }
  if (read(uri, experiment)) {
    append(Json());  // ends a line that a kill has cut
    return;
  }
  if (::ftruncate(file_.get(), 0) != 0) throw io_error(path_, "ftruncate", errno);
  note_being_sent("");
  if (key_.empty()) key_ = random_name();
  run_.reset();
  has_parameters_ = false;
  append(Json{{kUri, uri}, {kExperiment, experiment}, {kKey, key_}});
  // Before the server makes a run with this key.
  if (::fsync(file_.get()) != 0) throw io_error(path_, "fsync", errno);
  sync_directory(run);
}

/// Whether the file is about that server and experiment. The key stays the same in any case: the server may
/// have another address by now.
bool MlflowState::read(const std::string& uri, const std::string& experiment) {
  bool is_same = false;
  read_lines(path_, Links::refuse, [&](const std::string& line, bool) {
    const Json object = Json::parse_or_null(line);
    if (object.contains(kKey)) {
      key_ = text_in(object, kKey);
      is_same = text_in(object, kUri) == uri && text_in(object, kExperiment) == experiment;
    }
    if (object.contains(kRun)) run_ = {text_in(object, kRun), text_in(object, kArtifacts)};
    has_parameters_ = has_parameters_ || object.contains(kParameters);
  });
  return is_same && !key_.empty();
}

std::unordered_set<int64_t> MlflowState::sent_lines() const {
  std::unordered_set<int64_t> sent;
  read_lines(path_, Links::refuse, [&](const std::string& line, bool) {
    const Json object = Json::parse_or_null(line);
    const Json* lines = object.find(kLines);
    if (lines == nullptr || !lines->is_array()) return;
    for (const Json& each : lines->items())
      if (const auto number = each.integer()) sent.insert(*number);
  });
  return sent;
}

void MlflowState::note_run(const MlflowServer::Run& run) {
  run_ = run;
  append(Json{{kRun, run.id}, {kArtifacts, run.artifacts}});
}

void MlflowState::note_parameters() {
  has_parameters_ = true;
  append(Json{{kParameters, true}});
}

void MlflowState::note_lines(const std::vector<int64_t>& lines) {
  append(Json{{kLines, lines}});
}

std::vector<MetricsRecord> MlflowState::being_sent() const {
  std::vector<MetricsRecord> records;
  read_lines(sending_path_, Links::refuse, [&](const std::string& line, bool) {
    if (auto record = parse_record(line)) records.push_back(std::move(*record));
  });
  return records;
}

void MlflowState::note_being_sent(const std::string& lines) {
  const FileDescriptor file = open_regular(sending_path_, O_WRONLY | O_CREAT | O_TRUNC, Links::refuse);
  const int error = write_all(file.get(), lines);
  if (error != 0) throw io_error(sending_path_, "write", error);
}

/// Null becomes an empty line.
void MlflowState::append(const Json& object) {
  const std::string text = object.is_null() ? "" : object.dump(-1, Json::NotUtf8::replace);
  const int error = write_all(file_.get(), text + "\n");
  if (error != 0) throw io_error(path_, "write", error);
}

}  // namespace trainer
