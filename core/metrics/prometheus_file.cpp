// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/prometheus_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/base/file.h"
#include "core/base/regular_file.h"

namespace trainer {
namespace {

/// A label's value, where backslash, quote and line feed have a backslash.
std::string label(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

/// A metric's name has letters, digits and underscores.
std::string metric_name(const std::string& key) {
  std::string name = "trainer_" + key;
  std::ranges::replace_if(
      name,
      [](char c) { return !(('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9')); },
      '_');
  return name;
}

std::string value_text(const Number& number) {
  const double value = to_double(number);
  return std::isnan(value) ? "NaN" : fmt::format("{}", value);
}

}  // namespace

PrometheusFile::PrometheusFile(const std::filesystem::path& path, const std::filesystem::path& lines)
    : path_(path), run_(std::filesystem::weakly_canonical(path.parent_path()).filename().string()) {
  read_records(lines, [this](const MetricsRecord& record) { last_[record.split] = numbers_of(record); });
  write();
}

void PrometheusFile::append(const MetricsRecord& record) {
  last_[record.split] = numbers_of(record);
  write();
}

/// All samples of a metric must follow its TYPE.
void PrometheusFile::write() const {
  std::map<std::string, std::string> samples;
  for (const auto& [split, numbers] : last_) {
    for (const auto& [key, number] : numbers)
      samples[metric_name(key)] += fmt::format("{}{{run=\"{}\",split=\"{}\"}} {}\n", metric_name(key),
                                               label(run_), label(split), value_text(number));
  }
  std::string text;
  for (const auto& [name, lines] : samples) text += fmt::format("# TYPE {} gauge\n{}", name, lines);
  std::filesystem::path unfinished = path_;
  unfinished += ".new";
  const FileDescriptor file = open_regular(unfinished, O_WRONLY | O_CREAT | O_TRUNC, Links::refuse);
  if (const int error = write_all(file.get(), text); error != 0) throw io_error(unfinished, "write", error);
  if (std::rename(unfinished.c_str(), path_.c_str()) != 0) throw io_error(path_, "rename", errno);
}

}  // namespace trainer
