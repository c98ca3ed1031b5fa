// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/label_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "core/base/error.h"
#include "core/data/csv.h"
#include "core/data/images/decode.h"
#include "core/data/images/picture_file.h"

namespace trainer {
namespace {

const std::vector<std::string> kLabelHeader = {"file", "label"};

std::vector<uint8_t> bytes_of_labels(const std::string& path) {
  std::vector<uint8_t> bytes;
  try {
    read_picture_file(path, bytes);
  } catch (const DecodeError& error) {
    throw Error(ExitCode::data, fmt::format("{} (data.labels): {}", path, error.what()));
  }
  return bytes;
}

/// Rows as they come: labels are the numbers of classes in the order of their first rows.
class LabelRows {
 public:
  LabelRows(CsvReader& reader, const std::string& folder, const std::vector<std::string>& pictures)
      : reader_(reader), folder_(folder), pictures_(pictures), line_of_(pictures.size()) {}

  void add(const CsvRow& row) {
    if (row.fields.size() != kLabelHeader.size())
      reader_.fail(row.line, fmt::format("expected 2 fields, file and label, found {}", row.fields.size()));
    const std::string &file = row.fields[0], &label = row.fields[1];
    if (file.empty()) reader_.fail(row.line, "the name of the file is empty");
    if (label.empty()) reader_.fail(row.line, fmt::format("the label of '{}' is empty", file));
    const size_t picture = place_of(row.line, file);
    if (line_of_[picture] != 0)
      reader_.fail(row.line, fmt::format("'{}' is named in line {} already", file, line_of_[picture]));
    line_of_[picture] = row.line;
    const auto number = static_cast<int32_t>(numbers_.size());
    found_.picture.push_back(picture);
    found_.label.push_back(numbers_.emplace(label, number).first->second);
  }

  /// With the classes sorted.
  LabelFile take() {
    std::vector<int32_t> sorted(numbers_.size());
    for (const auto& [name, number] : numbers_) {
      sorted[static_cast<size_t>(number)] = static_cast<int32_t>(found_.classes.size());
      found_.classes.push_back(name);
    }
    for (int32_t& label : found_.label) label = sorted[static_cast<size_t>(label)];
    return std::move(found_);
  }

 private:
  size_t place_of(int64_t line, const std::string& file) const {
    const std::string name = std::filesystem::path(file).lexically_normal().string();
    const auto found = std::lower_bound(pictures_.begin(), pictures_.end(), name);
    if (found == pictures_.end() || *found != name)
      reader_.fail(line, fmt::format("there is no image '{}' in {}", file, folder_));
    return static_cast<size_t>(found - pictures_.begin());
  }

  CsvReader& reader_;
  const std::string& folder_;
  const std::vector<std::string>& pictures_;
  std::vector<int64_t> line_of_;  // of each picture; 0: not named so far
  std::map<std::string, int32_t> numbers_;
  LabelFile found_;
};

}  // namespace

LabelFile read_label_file(const std::string& path, const std::string& folder,
                          const std::vector<std::string>& pictures) {
  const std::vector<uint8_t> bytes = bytes_of_labels(path);
  CsvReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  CsvRow row;
  if (!reader.next(row)) reader.fail(1, "expected the header file,label, found an empty file");
  if (row.fields != kLabelHeader)
    reader.fail(1, fmt::format("expected the header file,label, found '{}'", fmt::join(row.fields, ",")));
  LabelRows rows(reader, folder, pictures);
  while (reader.next(row)) rows.add(row);
  LabelFile found = rows.take();
  if (found.picture.empty()) reader.fail(2, "expected a row for each image, found none");
  return found;
}

}  // namespace trainer
