// SPDX-License-Identifier: Apache-2.0
#include "core/data/formats.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace trainer {
namespace {

/// Throws Error (exit 65) if training and validation samples differ in their classes. A class that one of the
/// two lacks would shift the numbers of all later classes.
void require_training_classes(const DataSection& section, Split split) {
  const DataFormat& format = section.chosen_format();
  const std::string train = section.path(Split::train), val = section.path(Split::val);
  const bool are_apart = split == Split::val && !section.divides_train() && !train.empty();
  if (!are_apart || !format.missing(train, Split::train).empty()) return;
  const std::vector<std::string> expected = format.class_names(train), found = format.class_names(val);
  if (expected.empty() || found.empty()) return;
  if (found == expected) return;
  const std::string there = fmt::format("{} (data.val): expected the classes of {} (data.train)", val, train);
  const auto absent_from = [](const std::vector<std::string>& others) {
    return [&](const std::string& name) { return std::ranges::find(others, name) == others.end(); };
  };
  if (const auto missing = std::ranges::find_if(expected, absent_from(found)); missing != expected.end())
    throw Error(ExitCode::data, fmt::format("{}, found no class '{}'", there, *missing));
  if (const auto extra = std::ranges::find_if(found, absent_from(expected)); extra != found.end())
    throw Error(ExitCode::data, fmt::format("{}, found also a class '{}'", there, *extra));
  const auto [wanted, instead] = std::ranges::mismatch(expected, found);
  throw Error(ExitCode::data,
              fmt::format("{} in the same order, found '{}' in the place of '{}'", there, *instead, *wanted));
}

/// The kind of rows that the network reads, or otherwise the format's.
const RowKind& rows_of(const DataSection& section, const SourceRequest& request) {
  const DataFormat& format = section.chosen_format();
  return section.rows(format.gives(request.network_kind) ? request.network_kind : format.kinds().front());
}

std::unique_ptr<DataSource> open_split(const DataSection& section, const SourceRequest& request,
                                       const ErrorBudget* budget) {
  require_training_classes(section, request.split);
  return rows_of(section, request)
      .take_split(section.chosen_format().open(section, request), section, request, budget);
}

}  // namespace

bool DataFormat::gives(InputKind kind) const {
  const std::vector<InputKind> all = kinds();
  return std::ranges::find(all, kind) != all.end();
}

std::unique_ptr<DataSource> DataFormat::open_named(const NamedFiles&, const DataSection&,
                                                   const SourceRequest&) const {
  throw std::logic_error("files of this format are not named for a prediction");
}

std::vector<std::string> DataFormat::missing(const std::string& path, Split /*split*/) const {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? std::vector<std::string>{} : std::vector{path};
}

const Registry<DataFormat>& data_formats() {
#define TRAINER_ROW(function) function(),
  static const Registry<DataFormat> table = {TRAINER_DATA_FORMATS(TRAINER_ROW)};
#undef TRAINER_ROW
  return table;
}

std::vector<std::string> formats_that(const std::function<bool(const DataFormat&)>& property) {
  std::vector<std::string> names;
  for (const Registered<DataFormat>& row : data_formats()) {
    if (property(*row.make())) names.push_back(row.name);
  }
  return names;
}

bool has_split(const DataSection& section, Split split) {
  if (split == Split::val && !section.val && !section.divides_train()) return false;
  return !section.chosen_format().reads_files() || !section.path(split).empty();
}

Split stored_in(const DataSection& section, Split split) {
  return section.divides_train() ? Split::train : split;
}

std::unique_ptr<DataSource> open_stored(const DataSection& section, const SourceRequest& request) {
  return open_split(section, request, nullptr);
}

std::unique_ptr<DataSource> open_source(const DataSection& section, const SourceRequest& request) {
  const ErrorBudget budget{.percent = section.error_budget,
                           .split = request.split == Split::train ? "data.train" : "data.val",
                           .list_file = request.unreadable_list,
                           .is_shared = request.shares_budget};
  std::unique_ptr<DataSource> source = open_split(section, request, &budget);
  if (request.network_classes > 0) source->check_labels({request.network_classes, request.ignored_label});
  return source;
}

std::optional<SourceInfo> peek_source(const DataSection& section, const SourceRequest& request) {
  const bool is_there = has_split(section, request.split) && missing_files(section, request.split).empty();
  if (!is_there) return std::nullopt;
  const SourceInfo info = section.chosen_format().peek(section, request);
  require_training_classes(section, request.split);
  return rows_of(section, request).take_split(info, section, request);
}

std::vector<std::string> missing_files(const DataSection& section, std::optional<Split> only) {
  const DataFormat& format = section.chosen_format();
  std::vector<std::string> missing;
  if (!format.reads_files()) return missing;
  for (Split split : {Split::train, Split::val}) {
    if (!has_split(section, split) || split != only.value_or(split)) continue;
    const Split stored = stored_in(section, split);
    if (!only && stored != split) continue;  // its files have been looked for
    for (const std::string& file : format.missing(section.path(split), stored)) missing.push_back(file);
  }
  return missing;
}

std::vector<std::string> sample_files(const DataSection& section) {
  std::vector<std::string> all;
  for (Split split : {Split::train, Split::val}) {
    const std::string path = section.path(split);
    if (path.empty()) continue;
    for (const std::string& file : section.chosen_format().files(path, stored_in(section, split)))
      all.push_back(file);
  }
  return all;
}

std::vector<std::string> known_class_names(const DataSection& section) {
  const DataFormat& format = section.chosen_format();
  for (Split split : {Split::train, Split::val}) {
    const std::string path = section.path(split);
    if (!path.empty() && format.missing(path, split).empty()) return format.class_names(path);
  }
  return {};
}

}  // namespace trainer
