// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/label_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "core/base/printable.h"
#include "core/base/split.h"
#include "core/data/images/image_files.h"

namespace trainer {
namespace {

constexpr std::array<std::string_view, 13> kFileNames = {
    "file",     "filename",  "file_name",  "image", "image_id", "image_name", "image_path",
    "filepath", "file_path", "image_file", "path",  "img",      "id"};
constexpr std::array<std::string_view, 7> kLabelNames = {"label",    "labels", "class", "class_name",
                                                         "category", "target", "y"};
constexpr size_t kShownColumns = 10;

/// In lower case, without blanks around it.
std::string plain_name(const std::string& name) {
  std::string text = trimmed(name);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The first column by one of these names, in the order of the names.
template <size_t N>
std::optional<size_t> column_named(const std::vector<std::string>& columns,
                                   const std::array<std::string_view, N>& names) {
  for (const std::string_view name : names) {
    const auto found =
        std::ranges::find_if(columns, [&](const std::string& column) { return plain_name(column) == name; });
    if (found != columns.end()) return static_cast<size_t>(found - columns.begin());
  }
  return std::nullopt;
}

/// The first column whose field names an image with its ending, else one without: a label 1 may be the name
/// of 1.png. A column of a usual name, `named`, comes between the two.
std::optional<size_t> column_of_images(const CsvRow& row, const NamedImages& images,
                                       std::optional<size_t> named = std::nullopt) {
  std::optional<size_t> without_ending = named;
  for (size_t i = 0; i < row.fields.size(); ++i) {
    const std::string field(row.fields[i]);
    if (!images.names_image(field)) continue;
    if (is_image_name(field)) return i;
    if (!without_ending) without_ending = i;
  }
  return without_ending;
}

std::string listed_columns(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kShownColumns); ++i)
    shown.push_back(fmt::format("'{:.40}'", one_line(names[i])));
  const size_t more = names.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

[[noreturn]] void fail_columns(const CsvReader& table, const std::vector<std::string>& names,
                               const std::string& found) {
  table.fail(1, fmt::format("expected a column of the images' files and one of labels, such as file,label, "
                            "or one of 0 and 1 for each class; {}the columns are {}",
                            found, listed_columns(names)));
}

/// Whether these columns hold nothing but 0 and 1; the reader is after the header. Records of another length
/// are refused later.
bool are_flags(CsvReader table, const std::vector<size_t>& columns) {
  for (CsvRow row; table.next(row);) {
    const auto is_flag = [&](size_t c) {
      return c >= row.fields.size() || row.fields[c] == "0" || row.fields[c] == "1";
    };
    if (!std::ranges::all_of(columns, is_flag)) return false;
  }
  return true;
}

/// Finds the label's column, or those of the classes, in a table with a header.
void find_labels(const CsvReader& after_header, LabelColumns& found) {
  const std::vector<std::string>& names = found.names;
  std::vector<size_t> rest;
  for (size_t i = 0; i < names.size(); ++i)
    if (i != found.file && i != found.group) rest.push_back(i);
  if (rest.empty()) fail_columns(after_header, names, "there is no other column than that of the files; ");
  std::vector<std::string> rest_names = names;
  rest_names[found.file].clear();
  if (found.group) rest_names[*found.group].clear();
  std::optional<size_t> label = column_named(rest_names, kLabelNames);
  // With the header file,CLASS,... even one column of 0 and 1 is a class.
  const bool is_of_sets = names[found.file] == "file" && !(rest.size() == 1 && names[rest[0]] == "label");
  const bool wants_sets = is_of_sets || (!label && rest.size() > 1);
  if (wants_sets && are_flags(after_header, rest)) {
    found.classes = rest;
    return;
  }
  if (!label && rest.size() == 1) label = rest[0];
  if (!label && is_of_sets) found.classes = rest;  // a value that is neither is refused at its line
  if (!label && !is_of_sets) fail_columns(after_header, names, "none is called label, class or target; ");
  found.label = label;
}

/// In a table without a header, whose first record is of an image.
LabelColumns unnamed_columns(const CsvReader& table, const CsvRow& first, size_t file,
                             const std::string& group) {
  if (!group.empty())
    table.fail(1, fmt::format("data.split_by names the column '{}', but the first line is of an image; add a "
                              "line with the columns' names before it",
                              one_line(group)));
  if (first.fields.size() != 2) {
    table.fail(1,
               fmt::format("expected a file and a label in a table without a header, found {} field{}; add "
                           "a line with the columns' names before it, such as file,label",
                           first.fields.size(), first.fields.size() == 1 ? "" : "s"));
  }
  return {.names = {}, .fields = 2, .file = file, .label = 1 - file, .classes = {}, .group = {}};
}

size_t column_of_group(const CsvReader& table, const std::vector<std::string>& names,
                       const std::string& group) {
  const auto column = std::ranges::find(names, group);
  if (column == names.end())
    table.fail(1, fmt::format("there is no column '{}' (data.split_by); the columns are {}", one_line(group),
                              listed_columns(names)));
  return static_cast<size_t>(column - names.begin());
}

}  // namespace

LabelColumns find_label_columns(const CsvReader& table, const NamedImages& images, const std::string& group) {
  CsvReader reader = table;
  CsvRow first, second;
  if (!reader.next(first))
    reader.fail(1, "expected a column of the images' files and one of labels, found an empty file");
  const CsvReader after_header = reader;
  const std::vector<std::string> names = first.texts();
  const std::optional<size_t> named = column_named(names, kFileNames);
  if (const auto file = named ? std::nullopt : column_of_images(first, images))
    return unnamed_columns(table, first, *file, group);
  std::optional<size_t> file = named;
  if (reader.next(second)) file = column_of_images(second, images, named);
  if (file && *file >= names.size()) file = named;
  if (!file) {
    fail_columns(table, names,
                 fmt::format("no field of the first two lines names an image in {}; ", images.folder()));
  }
  LabelColumns found{
      .names = names, .fields = names.size(), .file = *file, .label = {}, .classes = {}, .group = {}};
  if (!group.empty()) found.group = column_of_group(table, names, group);
  if (found.group == found.file)
    table.fail(1, fmt::format("data.split_by names the column of the files, '{}'; name one that several "
                              "images share, such as a patient",
                              one_line(group)));
  find_labels(after_header, found);
  return found;
}

}  // namespace trainer
