// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/event_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <ctime>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/directory.h"
#include "core/base/regular_file.h"
#include "core/host/process.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;

// A file is a sequence of framed messages of the type Event. The numbers of fields are those of TensorFlow's
// event.proto and summary.proto.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;  // of Event
constexpr int kSessionStatus = 1, kSessionStart = 1;                                      // of SessionLog
constexpr int kValue = 1;                                                                 // of Summary
constexpr int kTag = 1, kSimpleValue = 2;                                                 // of Summary.Value

constexpr std::string_view kPrefix = "events.out.tfevents.";

template <class T>
std::string bytes_of(T value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string masked_sum(std::string_view bytes) {
  return bytes_of(masked_crc32c(std::as_bytes(std::span(bytes))));
}

std::string framed(const std::string& message) {
  const std::string length = bytes_of(uint64_t{message.size()});
  return length + masked_sum(length) + message + masked_sum(message);
}

double wall_seconds() {
  return static_cast<double>(std::time(nullptr));
}

std::string event_of(const MetricsRecord& record) {
  std::string summary, event;
  pbf_writer values(summary), fields(event);
  for (const auto& [key, number] : curves_of(record)) {
    std::string text;
    pbf_writer value(text);
    value.add_string(kTag, record.split + "/" + key);
    value.add_float(kSimpleValue, std::visit([](auto v) { return static_cast<float>(v); }, number));
    values.add_message(kValue, text);
  }
  fields.add_double(kWallTime, record.time.value_or(wall_seconds()));
  fields.add_int64(kStep, record.step);
  fields.add_message(kSummary, summary);
  return framed(event);
}

/// The start of a file. A program that has read an earlier file of this directory then discards it.
std::string beginning() {
  std::string version, start, session;
  pbf_writer of_version(version), of_start(start);
  of_version.add_double(kWallTime, wall_seconds());
  of_version.add_string(kFileVersion, "brain.Event:2");
  pbf_writer(session).add_enum(kSessionStatus, kSessionStart);
  of_start.add_double(kWallTime, wall_seconds());
  of_start.add_int64(kStep, 0);
  of_start.add_message(kSessionLog, session);
  return framed(version) + framed(start);
}

std::vector<fs::path> event_files(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const DirectoryEntry& entry : directory_entries(directory)) {
    if (entry.path().filename().string().starts_with(kPrefix)) files.push_back(entry.path());
  }
  return files;
}

/// TensorBoard reads the files of a directory in the order of their names: this one comes after `earlier`.
fs::path new_name(const fs::path& directory, const std::vector<fs::path>& earlier) {
  int64_t seconds = std::time(nullptr);
  for (const fs::path& path : earlier) {
    const std::string digits = path.filename().string().substr(kPrefix.size(), 10);
    int64_t other = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), other);
    seconds = std::max(seconds, other + 1);
  }
  return directory / fmt::format("{}{:010}.{}.{}", kPrefix, seconds, host_name(), ::getpid());
}

}  // namespace

EventFile::EventFile(const fs::path& directory, const fs::path& lines) {
  std::string text = beginning();
  read_records(lines, [&](const MetricsRecord& record) { text += event_of(record); });
  try {
    const std::vector<fs::path> earlier = event_files(directory);
    path_ = new_name(directory, earlier);
    // Under a name that TensorBoard ignores until the file is complete.
    const fs::path unnamed = directory / "events.new";
    write_atomically(unnamed, text);
    fs::rename(unnamed, path_);
    for (const fs::path& path : earlier) fs::remove(path);
  } catch (const fs::filesystem_error& error) {
    throw io_error(error.path1(), "replacing the event file", error.code().value());
  }
  file_ = open_regular(path_, O_WRONLY | O_APPEND, Links::refuse);
}

void EventFile::append(const MetricsRecord& record) {
  const int error = write_all(file_.get(), event_of(record));
  if (error != 0) throw io_error(path_, "write", error);
}

}  // namespace trainer
