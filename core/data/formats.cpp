// SPDX-License-Identifier: Apache-2.0
#include "core/data/formats.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/data/images/formats.h"
#include "core/data/tokens/formats.h"

namespace trainer {
namespace {

/// Throws Error (exit 65) where validation samples have other classes than training's: one that only one of
/// them has would shift the numbers of all that follow.
void require_training_classes(const DataSection& section, Split split) {
  const SourceFormat& format = source_format(section);
  const std::string train = section.path(Split::train), val = section.path(Split::val);
  const bool are_apart = split == Split::val && section.val_fraction == 0 && !train.empty();
  if (!are_apart || !format.class_names || !format.missing(train, Split::train).empty()) return;
  const std::vector<std::string> expected = format.class_names(section, train),
                                 found = format.class_names(section, val);
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

}  // namespace

const std::vector<SourceFormat>& source_formats() {
  static const std::vector<SourceFormat> table = [] {
    std::vector<SourceFormat> rows = image_formats();
    for (SourceFormat& row : token_formats()) rows.push_back(std::move(row));
    return rows;
  }();
  return table;
}

const SourceFormat& source_format(const DataSection& section) {
  const std::vector<SourceFormat>& table = source_formats();
  auto row = std::ranges::find_if(table, [&](const SourceFormat& each) {
    return each.name == section.format && each.kind == section.kind;
  });
  if (row == table.end()) row = std::ranges::find(table, section.format, &SourceFormat::name);
  if (row == table.end())
    throw Error(ExitCode::recipe, "data.format: unknown format '" + section.format + "'");
  return *row;
}

std::vector<std::string> formats_with_label_maps() {
  std::vector<std::string> names;
  for (const SourceFormat& row : source_formats()) {
    if (row.gives_label_maps) names.push_back(row.name);
  }
  return names;
}

bool may_give_label_sets(const DataSection& section) {
  const SourceFormat& format = source_format(section);
  return format.gives_label_sets && format.gives_label_sets(section);
}

bool has_split(const DataSection& section, Split split) {
  if (split == Split::val && !section.val && section.val_fraction == 0) return false;
  return !source_format(section).reads_files || !section.path(split).empty();
}

Split stored_in(const DataSection& section, Split split) {
  return section.val_fraction > 0 ? Split::train : split;
}

std::unique_ptr<DataSource> open_stored(const DataSection& section, const SourceRequest& request) {
  require_training_classes(section, request.split);
  return source_format(section).open(section, request, nullptr);
}

std::unique_ptr<DataSource> open_source(const DataSection& section, const SourceRequest& request) {
  const ErrorBudget budget{.percent = section.error_budget,
                           .split = request.split == Split::train ? "data.train" : "data.val",
                           .list_file = request.unreadable_list,
                           .is_shared = request.shares_budget};
  require_training_classes(section, request.split);
  std::unique_ptr<DataSource> source = source_format(section).open(section, request, &budget);
  if (request.network_classes > 0) source->check_labels({request.network_classes, request.ignored_label});
  return source;
}

std::optional<SourceInfo> peek_source(const DataSection& section, const SourceRequest& request) {
  std::optional<SourceInfo> info = source_format(section).peek(section, request);
  if (info) require_training_classes(section, request.split);
  return info;
}

std::vector<std::string> missing_files(const DataSection& section, std::optional<Split> only) {
  std::vector<std::string> missing;
  for (Split split : {Split::train, Split::val}) {
    if (!has_split(section, split) || split != only.value_or(split)) continue;
    const Split stored = stored_in(section, split);
    if (!only && stored != split) continue;  // its files have been looked for
    for (const std::string& file : source_format(section).missing(section.path(split), stored))
      missing.push_back(file);
  }
  return missing;
}

std::vector<std::string> sample_files(const DataSection& section) {
  const SourceFormat& format = source_format(section);
  std::vector<std::string> all;
  for (Split split : {Split::train, Split::val}) {
    const std::string& path = section.path(split);
    if (section.labels && !path.empty()) all.push_back(path + "/" + *section.labels);
    if (!format.files || path.empty()) continue;
    for (const std::string& file : format.files(path, stored_in(section, split))) all.push_back(file);
  }
  return all;
}

std::vector<std::string> known_class_names(const DataSection& section) {
  const SourceFormat& format = source_format(section);
  if (!format.class_names) return {};
  for (Split split : {Split::train, Split::val}) {
    const std::string path = section.path(split);
    if (!path.empty() && format.missing(path, split).empty()) return format.class_names(section, path);
  }
  return {};
}

}  // namespace trainer
