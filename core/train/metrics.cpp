// SPDX-License-Identifier: Apache-2.0
#include "core/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNonFinite = "non_finite";

/// Builds one object and remembers which of its numbers JSON cannot hold.
class ObjectBuilder {
 public:
  /// `name` may be dotted: each part but the last names a map, made where it is not there yet.
  void add_nested(const std::string& name, const Json& value) {
    Json* target = &object_;
    std::istringstream parts(name);
    for (std::string part; std::getline(parts, part, '.');) {
      if (!target->is_object() && !target->is_null()) break;
      target = &(*target)[part];
    }
    if (!target->is_null())
      throw Error(ExitCode::internal, "summary: " + name + " is in conflict with another key");
    *target = value;
    note(name, value);
  }

  void add(const std::string& name, const Json& value) {
    object_[name] = value;
    note(name, value);
  }
  template <class T>
  void add(const std::string& name, const std::optional<T>& value) {
    if (value) add(name, Json(*value));
  }

  Json take() {
    if (!non_finite_.empty()) object_[kNonFinite] = non_finite_;
    return std::move(object_);
  }

 private:
  void note(const std::string& name, const Json& value) {
    if (value.is_number_float() && !std::isfinite(value.get<double>())) non_finite_.push_back(name);
  }

  Json object_ = Json::object();
  std::vector<std::string> non_finite_;
};

/// Bytes that are not UTF-8 are replaced: a name must not cost a run its record.
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const MetricsRecord& record) {
  ObjectBuilder line;
  line.add("step", Json(record.step));
  line.add("updates", Json(record.updates));
  line.add("epoch", Json(record.epoch));
  line.add("split", Json(record.split));
  line.add("loss", Json(record.loss));
  for (const auto& [name, value] : record.metrics) line.add(name, Json(value));
  line.add("lr", record.lr);
  line.add("samples_per_s", record.samples_per_s);
  line.add("data_wait_ms", record.data_wait_ms);
  line.add("forward_ms", record.forward_ms);
  line.add("backward_ms", record.backward_ms);
  line.add("update_ms", record.update_ms);
  line.add("memory_bytes", record.memory_bytes);
  line.add("loss_scale", record.loss_scale);
  line.add("skipped", record.skipped);
  line.add("event", record.event);
  line.add("reason", record.reason);
  line.add("in_a_row", record.in_a_row);
  return text_of(line.take(), -1);
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path)
    : path_(path), file_(open_file(path, O_WRONLY | O_CREAT | O_APPEND)) {}

void MetricsWriter::append(const MetricsRecord& record) {
  const int error = write_all(file_.get(), to_json(record) + "\n");
  if (error != 0) throw io_error(path_, "write", error);
}

void MetricsWriter::sync() const {
  if (::fsync(file_.get()) != 0) throw io_error(path_, "fsync", errno);
}

void cut_metrics(const std::filesystem::path& path, int64_t step) {
  const std::optional<std::string> text = read_text(path);
  if (!text) return;
  std::string kept;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const Json record = Json::parse(line, nullptr, false);
    const auto found = record.is_object() ? record.find("step") : record.end();
    if (found != record.end() && found->is_number_integer() && *found <= step) kept += line + "\n";
  }
  if (kept != *text) write_atomically(path, kept);
}

void write_summary(const std::filesystem::path& path, const Summary& summary) {
  ObjectBuilder object;
  for (const auto& [name, value] : summary) {
    object.add_nested(name, std::visit([](const auto& v) { return Json(v); }, value));
  }
  write_atomically(path, text_of(object.take(), 2) + "\n");
}

std::optional<bool> read_finished(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_text(path);
  if (!text) return std::nullopt;
  const Json summary = Json::parse(*text, nullptr, false);
  if (!summary.is_object()) return std::nullopt;
  const auto finished = summary.find("finished");
  if (finished == summary.end() || !finished->is_boolean()) return std::nullopt;
  return finished->get<bool>();
}

}  // namespace trainer
