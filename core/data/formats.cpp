// SPDX-License-Identifier: Apache-2.0
#include "core/data/formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/data/idx.h"
#include "core/data/synthetic.h"

namespace trainer {
namespace {

int64_t synthetic_size(const DataSection& section, Split split) {
  return split == Split::train ? section.synthetic_train_samples : section.synthetic_val_samples;
}

SourceFormat idx_format() {
  return {"idx", true,
          [](const DataSection& section, const SourceRequest& request) {
            return open_idx(section.path(request.split));
          },
          [](const DataSection& section, const SourceRequest& request) {
            return peek_idx(section.path(request.split));
          },
          missing_idx};
}

SourceFormat synthetic_format() {
  return {"synthetic", false,
          [](const DataSection& section, const SourceRequest& request) {
            return make_synthetic(request.seed, request.split, synthetic_size(section, request.split),
                                  request.network_shape, request.network_classes);
          },
          [](const DataSection& section, const SourceRequest& request) {
            return SourceInfo{synthetic_size(section, request.split), request.network_shape,
                              request.network_classes, 0};
          },
          [](const std::string&) { return std::vector<std::string>{}; }};
}

}  // namespace

const std::vector<SourceFormat>& source_formats() {
  static const std::vector<SourceFormat> table = {idx_format(), synthetic_format()};
  return table;
}

const SourceFormat& source_format(const DataSection& section) {
  const std::vector<SourceFormat>& table = source_formats();
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const SourceFormat& format) { return format.name == section.format; });
  if (row == table.end())
    throw Error(ExitCode::recipe, "data.format: unknown format '" + section.format + "'");
  return *row;
}

bool has_split(const DataSection& section, Split split) {
  return !source_format(section).reads_files || !section.path(split).empty();
}

std::unique_ptr<DataSource> open_source(const DataSection& section, const SourceRequest& request) {
  std::unique_ptr<DataSource> source = source_format(section).open(section, request);
  source->check_labels(request.network_classes);
  return source;
}

std::optional<SourceInfo> peek_source(const DataSection& section, const SourceRequest& request) {
  return source_format(section).peek(section, request);
}

std::vector<std::string> missing_files(const DataSection& section) {
  std::vector<std::string> missing;
  for (Split split : {Split::train, Split::val}) {
    if (!has_split(section, split)) continue;
    for (const std::string& file : source_format(section).missing(section.path(split)))
      missing.push_back(file);
  }
  return missing;
}

}  // namespace trainer
