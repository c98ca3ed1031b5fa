// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/label_file.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/csv.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_file.h"
#include "core/data/images/label_columns.h"
#include "core/data/images/named_images.h"

namespace trainer {
namespace {

std::vector<uint8_t> bytes_of_labels(const std::string& path) {
  std::vector<uint8_t> bytes;
  try {
    read_image_file(path, bytes);
  } catch (const DecodeError& error) {
    throw Error(ExitCode::data, fmt::format("{} (data.labels): {}", one_line(path), error.what()));
  }
  return bytes;
}

/// Numbers different texts from zero, in the order of their first use.
class NumberedTexts {
 public:
  int32_t number(std::string_view text) {
    return numbers_.emplace(text, static_cast<int32_t>(numbers_.size())).first->second;
  }
  /// The texts, sorted, and by its number the place of each.
  std::vector<std::string> sorted(std::vector<int32_t>& places) const {
    std::vector<std::string> texts;
    places.resize(numbers_.size());
    for (const auto& [text, number] : numbers_) {
      places[static_cast<size_t>(number)] = static_cast<int32_t>(texts.size());
      texts.push_back(text);
    }
    return texts;
  }

 private:
  std::map<std::string, int32_t> numbers_;
};

/// The rows of a table after its header, if it has one.
class LabelRows {
 public:
  LabelRows(CsvReader& reader, const LabelColumns& columns, NamedImages& images)
      : reader_(reader), columns_(columns), images_(images) {
    CsvRow header;
    if (!columns.names.empty()) reader_.next(header);
  }

  LabelFile read() {
    if (!columns_.label) found_.classes = classes_of_header();
    for (CsvRow row; reader_.next(row); last_line_ = row.line) read_row(row);
    if (found_.image.empty()) fail_empty();
    if (!columns_.label) images_.require_all(reader_, last_line_);
    std::vector<int32_t> places;
    if (columns_.label) found_.classes = labels_.sorted(places);
    for (int32_t& label : found_.label) label = places[static_cast<size_t>(label)];
    return std::move(found_);
  }

 private:
  void read_row(const CsvRow& row) {
    require_fields(row);
    const std::string file(row.fields[columns_.file]);
    if (columns_.label && !file.empty() && row.fields[*columns_.label].empty())
      reader_.fail(row.line, fmt::format("the label of '{:.200}' is empty", one_line(file)));
    const std::optional<size_t> image = images_.take(reader_, row, file);
    // A class has its number whatever folder its images are in.
    const int32_t label = columns_.label ? labels_.number(row.fields[*columns_.label]) : 0;
    if (!image) {
      ++found_.rows_elsewhere;
      return;
    }
    found_.image.push_back(*image);
    if (columns_.group) add_group(row, row.fields[*columns_.group]);
    if (columns_.label) {
      found_.label.push_back(label);
    } else {
      add_set(row);
    }
  }

  void require_fields(const CsvRow& row) const {
    if (row.fields.size() == columns_.fields) return;
    if (row.fields.size() == 1 && row.fields[0].empty()) reader_.fail(row.line, "an empty line; remove it");
    reader_.fail(row.line, fmt::format("expected {} fields as in the {}, found {}", columns_.fields,
                                       columns_.names.empty() ? "first line" : "header", row.fields.size()));
  }

  void add_group(const CsvRow& row, std::string_view value) {
    if (value.empty())
      reader_.fail(row.line, fmt::format("the field of column '{}' (data.split_by) is empty",
                                         one_line(columns_.names[*columns_.group])));
    found_.group.push_back(groups_.number(value));
  }

  void add_set(const CsvRow& row) {
    for (size_t c = 0; c < columns_.classes.size(); ++c) {
      const std::string_view value = row.fields[columns_.classes[c]];
      if (value != "0" && value != "1") {
        reader_.fail(row.line,
                     fmt::format("expected 0 or 1 for class '{}', found '{:.40}'; a file with one label for "
                                 "each image has a column that is called label",
                                 one_line(found_.classes[c]), one_line(value)));
      }
      if (value == "1") found_.sets.push_back(static_cast<int32_t>(c));
    }
    found_.set_end.push_back(found_.sets.size());
  }

  /// The classes that a header names.
  std::vector<std::string> classes_of_header() const {
    std::vector<std::string> classes;
    std::set<std::string> known;
    for (const size_t column : columns_.classes) {
      const std::string& name = classes.emplace_back(columns_.names[column]);
      if (name.empty())
        reader_.fail(
            1, fmt::format("the name of class {} is empty; name it, or remove the comma", known.size() + 1));
      if (name.front() == ' ' || name.back() == ' ')
        reader_.fail(
            1, fmt::format("the class '{}' begins or ends with a blank; remove the blank", one_line(name)));
      if (!known.insert(name).second)
        reader_.fail(1, fmt::format("the class '{}' has two columns; rename or remove one", one_line(name)));
    }
    return classes;
  }

  [[noreturn]] void fail_empty() const {
    if (found_.rows_elsewhere > 0)
      reader_.fail(last_line_, fmt::format("none of the {} rows names an image in {}", found_.rows_elsewhere,
                                           one_line(images_.folder())));
    reader_.fail(2, "expected a row for each image, found none");
  }

  CsvReader& reader_;
  const LabelColumns& columns_;
  NamedImages& images_;
  NumberedTexts labels_, groups_;
  LabelFile found_;
  int64_t last_line_ = 1;
};

}  // namespace

LabelFile read_label_file(const std::string& path, const std::string& folder,
                          const std::vector<std::string>& images, const std::string& group) {
  const std::vector<uint8_t> bytes = bytes_of_labels(path);
  return parse_label_file({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, folder, images,
                          group);
}

LabelFile parse_label_file(std::string_view text, const std::string& path, const std::string& folder,
                           const std::vector<std::string>& images, const std::string& group) {
  CsvReader reader(text, path, csv_separator(text));
  NamedImages named(path, folder, images);
  const LabelColumns columns = find_label_columns(reader, named, group);
  return LabelRows(reader, columns, named).read();
}

}  // namespace trainer
