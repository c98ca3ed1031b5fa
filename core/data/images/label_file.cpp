// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/label_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/data/csv.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_file.h"

namespace trainer {
namespace {

const std::vector<std::string> kLabelHeader = {"file", "label"};

std::vector<uint8_t> bytes_of_labels(const std::string& path) {
  std::vector<uint8_t> bytes;
  try {
    read_image_file(path, bytes);
  } catch (const DecodeError& error) {
    throw Error(ExitCode::data, fmt::format("{} (data.labels): {}", path, error.what()));
  }
  return bytes;
}

/// Finds the images that rows name.
class NamedImages {
 public:
  NamedImages(const CsvReader& reader, const std::string& folder, const std::vector<std::string>& images)
      : reader_(reader), folder_(folder), images_(images), line_of_(images.size()) {}

  /// The place of the row's image, which no other row may name.
  size_t take(const CsvRow& row) {
    const std::string& file = row.fields[0];
    if (file.empty()) reader_.fail(row.line, "the name of the file is empty");
    const size_t image = place_of(row.line, file);
    if (line_of_[image] != 0)
      reader_.fail(row.line, fmt::format("'{}' is named in line {} already; keep one of the rows", file,
                                         line_of_[image]));
    line_of_[image] = row.line;
    return image;
  }

  /// Throws at the last row's line if an image has no row.
  void require_all(int64_t last_line) const {
    const auto missing = std::ranges::count(line_of_, 0);
    if (missing == 0) return;
    const auto first = std::ranges::find(line_of_, 0) - line_of_.begin();
    reader_.fail(last_line,
                 fmt::format("the rows end without one for '{}'{}; each image in {} needs one, with 0 for "
                             "each class that it lacks",
                             images_[static_cast<size_t>(first)],
                             missing == 1 ? "" : fmt::format(" and {} more", missing - 1), folder_));
  }

 private:
  size_t place_of(int64_t line, const std::string& file) const {
    const std::string name = std::filesystem::path(file).lexically_normal().string();
    const auto found = std::lower_bound(images_.begin(), images_.end(), name);
    if (found == images_.end() || *found != name)
      reader_.fail(line, fmt::format("there is no image '{}' in {}", file, folder_));
    return static_cast<size_t>(found - images_.begin());
  }

  const CsvReader& reader_;
  const std::string& folder_;
  const std::vector<std::string>& images_;
  std::vector<int64_t> line_of_;  // of each image; 0: not named so far
};

void require_fields(const CsvReader& reader, const CsvRow& row, size_t expected) {
  if (row.fields.size() == expected) return;
  if (row.fields.size() == 1 && row.fields[0].empty()) reader.fail(row.line, "an empty line; remove it");
  reader.fail(row.line,
              fmt::format("expected {} fields as in the header, found {}", expected, row.fields.size()));
}

/// One label in each row. Labels are the numbers of classes in the order of their first rows, until the end
/// sorts them.
LabelFile read_labels(CsvReader& reader, NamedImages& images) {
  LabelFile found;
  std::map<std::string, int32_t> numbers;
  for (CsvRow row; reader.next(row);) {
    require_fields(reader, row, kLabelHeader.size());
    const std::string& label = row.fields[1];
    if (label.empty() && !row.fields[0].empty())
      reader.fail(row.line, fmt::format("the label of '{}' is empty", row.fields[0]));
    found.image.push_back(images.take(row));
    const auto number = static_cast<int32_t>(numbers.size());
    found.label.push_back(numbers.emplace(label, number).first->second);
  }
  std::vector<int32_t> sorted(numbers.size());
  for (const auto& [name, number] : numbers) {
    sorted[static_cast<size_t>(number)] = static_cast<int32_t>(found.classes.size());
    found.classes.push_back(name);
  }
  for (int32_t& label : found.label) label = sorted[static_cast<size_t>(label)];
  return found;
}

/// The classes that a header names after `file`.
std::vector<std::string> classes_of_header(const CsvReader& reader, const CsvRow& header) {
  std::vector<std::string> classes(header.fields.begin() + 1, header.fields.end());
  std::set<std::string> known;
  for (const std::string& name : classes) {
    if (name.empty())
      reader.fail(
          1, fmt::format("the name of class {} is empty; name it, or remove the comma", known.size() + 1));
    if (name.front() == ' ' || name.back() == ' ')
      reader.fail(1, fmt::format("the class '{}' begins or ends with a blank; remove the blank", name));
    if (!known.insert(name).second)
      reader.fail(1, fmt::format("the class '{}' has two columns; rename or remove one", name));
  }
  return classes;
}

/// 1 or 0 for each class in each row.
LabelFile read_label_sets(CsvReader& reader, const CsvRow& header, NamedImages& images) {
  LabelFile found{.classes = classes_of_header(reader, header)};
  int64_t last_line = 1;
  for (CsvRow row; reader.next(row); last_line = row.line) {
    require_fields(reader, row, header.fields.size());
    found.image.push_back(images.take(row));
    for (size_t c = 0; c < found.classes.size(); ++c) {
      const std::string& value = row.fields[c + 1];
      if (value != "0" && value != "1") {
        reader.fail(row.line,
                    fmt::format("expected 0 or 1 for class '{}', found '{:.40}'; a file with one label "
                                "for each image has the header file,label",
                                found.classes[c], value));
      }
      if (value == "1") found.sets.push_back(static_cast<int32_t>(c));
    }
    found.set_end.push_back(found.sets.size());
  }
  if (!found.image.empty()) images.require_all(last_line);
  return found;
}

}  // namespace

LabelFile read_label_file(const std::string& path, const std::string& folder,
                          const std::vector<std::string>& images) {
  const std::vector<uint8_t> bytes = bytes_of_labels(path);
  return parse_label_file({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, folder, images);
}

LabelFile parse_label_file(std::string_view text, const std::string& path, const std::string& folder,
                           const std::vector<std::string>& images) {
  CsvReader reader(text, path);
  CsvRow header;
  const bool is_empty = !reader.next(header);
  if (is_empty || header.fields.size() < 2 || header.fields[0] != kLabelHeader[0]) {
    reader.fail(
        1, fmt::format("expected the header file,label, or file and a name for each class, separated by "
                       "commas, found {}",
                       is_empty ? "an empty file"
                                : fmt::format("'{:.60}'", fmt::format("{}", fmt::join(header.fields, ",")))));
  }
  NamedImages named(reader, folder, images);
  LabelFile found =
      header.fields == kLabelHeader ? read_labels(reader, named) : read_label_sets(reader, header, named);
  if (found.image.empty()) reader.fail(2, "expected a row for each image, found none");
  return found;
}

}  // namespace trainer
