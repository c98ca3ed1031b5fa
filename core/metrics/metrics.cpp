// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/metrics.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/base/split.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

constexpr const char* kNonFinite = "non_finite";

/// Builds one object and remembers which of its numbers JSON cannot hold.
class ObjectBuilder {
 public:
  /// `name` may be dotted: each part but the last names a map, made if it is not there yet.
  void add_nested(const std::string& name, const Json& value) {
    Json* target = &object_;
    for (const std::string& part : split(name, '.')) {
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
    if (value.is_number() && !std::isfinite(value.number())) non_finite_.push_back(name);
  }

  Json object_ = Json::object();
  std::vector<std::string> non_finite_;
};

/// Calls `field(key, member)` for all that a line holds, in its order; the metrics have keys of their own.
template <class Record, class Field>
void visit(Record& record, const Field& field) {
  field("step", record.step);
  field("updates", record.updates);
  field("epoch", record.epoch);
  field("split", record.split);
  field("loss", record.loss);
  field("", record.metrics);
  field("lr", record.lr);
  field("grad_norm", record.grad_norm);
  field("samples_per_s", record.samples_per_s);
  field("tokens_per_s", record.tokens_per_s);
  field("data_wait_ms", record.data_wait_ms);
  field("forward_ms", record.forward_ms);
  field("backward_ms", record.backward_ms);
  field("update_ms", record.update_ms);
  field("memory_bytes", record.memory_bytes);
  field("loss_scale", record.loss_scale);
  field("skipped", record.skipped);
  field("event", record.event);
  field("reason", record.reason);
  field("in_a_row", record.in_a_row);
  field("time", record.time);
}

template <class Value>
constexpr bool kIsMetrics = std::is_same_v<std::decay_t<Value>, decltype(MetricsRecord::metrics)>;

// Each reads a value from a line; returns false if it is of another kind. Null means not finite.
bool take(const Json& json, std::string& value) {
  if (json.is_text()) value = json.text();
  return json.is_text();
}
bool take(const Json& json, int64_t& value) {
  const std::optional<int64_t> found = json.integer();
  if (found) value = *found;
  return found.has_value();
}
bool take(const Json& json, double& value) {
  if (json.is_number()) value = json.number();
  if (json.is_null()) value = std::numeric_limits<double>::quiet_NaN();
  return json.is_number() || json.is_null();
}
template <class T>
bool take(const Json& json, std::optional<T>& value) {
  return take(json, value.emplace());
}

template <class T>
bool may_be_absent(const T&) {
  return false;
}
template <class T>
bool may_be_absent(const std::optional<T>&) {
  return true;
}

/// Bytes that are not UTF-8 are replaced: a name must not cost a run its record.
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, Json::NotUtf8::replace);
}

}  // namespace

double to_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::string to_json(const MetricsRecord& record) {
  ObjectBuilder line;
  visit(record, [&](const char* key, const auto& value) {
    if constexpr (kIsMetrics<decltype(value)>) {
      for (const auto& [name, number] : value)
        line.add(name, std::visit([](auto each) { return Json(each); }, number));
    } else {
      line.add(key, value);
    }
  });
  return text_of(line.take(), -1);
}

std::optional<MetricsRecord> parse_record(std::string_view line) {
  const Json object = Json::parse_or_null(line);
  if (!object.is_object()) return std::nullopt;
  MetricsRecord record;
  std::set<std::string> known = {kNonFinite};
  bool valid = true;
  visit(record, [&](const char* key, auto& value) {
    if constexpr (!kIsMetrics<decltype(value)>) {
      known.insert(key);
      const Json* found = object.find(key);
      valid = valid && (found == nullptr ? may_be_absent(value) : take(*found, value));
    }
  });
  for (const auto& [key, value] : object.members()) {
    if (known.contains(key)) continue;
    Number number;
    valid = valid && (take(value, number.emplace<int64_t>()) || take(value, number.emplace<double>()));
    record.metrics.emplace_back(key, number);
  }
  return valid ? std::optional(record) : std::nullopt;
}

void read_records(const std::filesystem::path& path, const std::function<void(const MetricsRecord&)>& take) {
  int64_t number = 0;
  read_lines(path, Links::refuse, [&](const std::string& line, bool is_ended) {
    ++number;
    const std::optional<MetricsRecord> record = parse_record(line);
    if (!record || !is_ended) {
      throw Error(ExitCode::data, fmt::format("{}:{}: expected a line of metrics, found {}; remove the line",
                                              one_line(path.string()), number,
                                              record ? "an incomplete one" : "another text"));
    }
    take(*record);
  });
}

NamedNumbers numbers_of(const MetricsRecord& record) {
  NamedNumbers numbers;
  const auto add = [&](const std::string& key, auto value) {
    const bool finite = std::isfinite(static_cast<double>(value));
    if (finite) numbers.emplace_back(key, value);
    if (!finite) numbers.emplace_back(key, std::numeric_limits<double>::quiet_NaN());
  };
  visit(record, [&](const char* key, const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (kIsMetrics<Value>) {
      for (const auto& [name, number] : value)
        std::visit([&, &key = name](auto each) { add(key, each); }, number);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      add(key, value);
    } else if constexpr (requires { std::isfinite(static_cast<double>(*value)); }) {
      if (value) add(key, *value);
    }
  });
  return numbers;
}

NamedNumbers curves_of(const MetricsRecord& record) {
  NamedNumbers curves = numbers_of(record);
  std::erase_if(curves, [](const auto& named) {
    const std::string& key = named.first;
    return key == "step" || key == "updates" || key == "epoch" || key == "time";
  });
  return curves;
}

std::optional<double> number_in(const MetricsRecord& record, std::string_view key) {
  for (const auto& [name, number] : numbers_of(record))
    if (name == key) return to_double(number);
  return std::nullopt;
}

std::vector<std::string> record_keys(const std::vector<std::string>& metrics) {
  std::vector<std::string> keys;
  const MetricsRecord record;
  visit(record, [&](const char* key, const auto& value) {
    if constexpr (kIsMetrics<decltype(value)>) {
      keys.insert(keys.end(), metrics.begin(), metrics.end());
    } else {
      keys.emplace_back(key);
    }
  });
  return keys;
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path)
    : path_(path), file_(open_regular(path, O_WRONLY | O_CREAT | O_APPEND, Links::refuse)) {
  sync_directory(directory_of(path));
}

void MetricsWriter::append(const MetricsRecord& record) {
  const std::lock_guard lock(mutex_);
  waiting_ += to_json(record) + "\n";
  write_waiting();
}

bool MetricsWriter::is_behind() {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

/// Returns the errno of a failed call; unwritten data then waits.
int MetricsWriter::write_waiting() {
  while (!waiting_.empty()) {
    const ssize_t count = ::write(file_.get(), waiting_.data(), waiting_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    waiting_.erase(0, static_cast<size_t>(count));
  }
  return 0;
}

void MetricsWriter::sync() {
  const std::lock_guard lock(mutex_);
  const int error = write_waiting();
  if (error != 0) throw io_error(path_, "write", error);
  if (::fsync(file_.get()) != 0) throw io_error(path_, "fsync", errno);
}

void cut_metrics(const std::filesystem::path& path, int64_t step, int64_t validated) {
  std::string kept;
  bool is_cut = false;
  read_lines(path, Links::refuse, [&](const std::string& line, bool is_ended) {
    const Json record = is_ended ? Json::parse_or_null(line) : Json();
    const Json* split = record.find("split");
    const Json* found = record.find("step");
    const bool validation = split != nullptr && split->is_text() && split->text() == "validation";
    const std::optional<int64_t> at = found == nullptr ? std::nullopt : found->integer();
    const bool is_kept = at && *at <= (validation ? validated : step);
    if (is_kept) kept += line + "\n";
    is_cut = is_cut || !is_kept;
  });
  if (is_cut) write_atomically(path, kept);
}

void write_summary(const std::filesystem::path& path, const Summary& summary) {
  ObjectBuilder object;
  for (const auto& [name, value] : summary) {
    object.add_nested(name, std::visit([](const auto& v) { return Json(v); }, value));
  }
  write_atomically(path, text_of(object.take(), 2) + "\n");
}

std::optional<bool> read_finished(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_text(path, Links::refuse);
  if (!text) return std::nullopt;
  const Json summary = Json::parse_or_null(*text);
  const Json* finished = summary.find("finished");
  if (finished == nullptr || !finished->is_boolean()) return std::nullopt;
  return finished->boolean();
}

}  // namespace trainer
