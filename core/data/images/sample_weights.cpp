// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/sample_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/data/csv.h"

namespace trainer {
namespace {

std::optional<double> number_in(std::string_view field) {
  double number = 0;
  const char* end = field.data() + field.size();
  const auto result = std::from_chars(field.data(), end, number);
  if (field.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

double weight_in(const CsvReader& reader, const CsvRow& row, std::string_view field) {
  const std::optional<double> weight = number_in(field);
  if (!weight || !std::isfinite(*weight) || *weight < 0)
    reader.fail(row.line, fmt::format("expected a weight, a finite number of at least 0, found '{:.40}'",
                                      one_line(field)));
  return *weight;
}

/// A weight on each line, in the order of the samples.
std::vector<double> read_lines(CsvReader& reader, CsvRow& row, bool has_row, const ImageSource& source) {
  std::vector<double> weights;
  int64_t line = 1;
  for (; has_row; has_row = reader.next(row)) {
    line = row.line;
    if (row.fields.size() != 1)
      reader.fail(line, fmt::format("expected a weight alone, found {} fields", row.fields.size()));
    weights.push_back(weight_in(reader, row, row.fields[0]));
    if (static_cast<int64_t>(weights.size()) > source.size()) break;
  }
  const auto count = static_cast<int64_t>(weights.size());
  if (count != source.size()) {
    reader.fail(line, fmt::format("expected {} weights, one for each sample of data.train before any is set "
                                  "aside for validation, found {}",
                                  source.size(), count > source.size() ? "more" : std::to_string(count)));
  }
  return weights;
}

/// Rows of a name and a weight, in any order.
std::vector<double> read_named_weights(CsvReader& reader, CsvRow& row, bool has_row, size_t file,
                                       size_t weight, const ImageSource& source) {
  const size_t fields = row.fields.size();
  if (source.sample_name(0).empty())
    reader.fail(1, "the samples of this format have no names; write one weight on each line, in their order");
  std::map<std::string, size_t> places;
  for (int64_t i = 0; i < source.size(); ++i) places.emplace(source.sample_name(i), static_cast<size_t>(i));
  std::vector<double> weights(static_cast<size_t>(source.size()));
  std::vector<int64_t> line_of(weights.size());
  int64_t line = 1;
  for (; has_row; has_row = reader.next(row)) {
    line = row.line;
    if (row.fields.size() != fields)
      reader.fail(line, fmt::format("expected {} fields, found {}", fields, row.fields.size()));
    const std::string name(row.fields[file]);
    const auto found = places.find(std::filesystem::path(name).lexically_normal().string());
    if (found == places.end())
      reader.fail(line, fmt::format("there is no sample '{:.200}' in data.train", one_line(name)));
    if (line_of[found->second] != 0)
      reader.fail(line, fmt::format("'{:.200}' is named in line {} already; keep one of the rows",
                                    one_line(name), line_of[found->second]));
    line_of[found->second] = line;
    weights[found->second] = weight_in(reader, row, row.fields[weight]);
  }
  if (const auto missing = std::ranges::find(line_of, 0); missing != line_of.end())
    reader.fail(line, fmt::format("the rows end without one for '{:.200}'",
                                  one_line(source.sample_name(missing - line_of.begin()))));
  return weights;
}

}  // namespace

std::vector<double> read_sample_weights(const std::string& path, const ImageSource& source) {
  const std::optional<std::string> text = read_text(path);
  if (!text)
    throw Error(ExitCode::data, fmt::format("data.sample_weights: there is no file {}", one_line(path)));
  return parse_sample_weights(*text, path, source);
}

std::vector<double> parse_sample_weights(std::string_view text, const std::string& path,
                                         const ImageSource& source) {
  CsvReader reader(text, path, csv_separator(text));
  CsvRow row;
  bool has_row = reader.next(row);
  size_t file = 0, weight = row.fields.size() < 2 ? 0 : 1;
  // A first line without any number is a header.
  if (has_row &&
      std::ranges::none_of(row.fields, [](std::string_view field) { return number_in(field).has_value(); })) {
    const auto named = std::ranges::find(row.fields, "weight");
    if (named != row.fields.end()) weight = static_cast<size_t>(named - row.fields.begin());
    if (row.fields.size() > 1 && weight == 0) file = 1;
    const size_t fields = row.fields.size();
    has_row = reader.next(row);
    if (!has_row) row.fields.resize(fields);
  }
  if (row.fields.size() < 2) return read_lines(reader, row, has_row, source);
  return read_named_weights(reader, row, has_row, file, weight, source);
}

std::vector<double> balancing_weights(const std::vector<int32_t>& labels) {
  std::map<int32_t, int64_t> counts;
  for (const int32_t label : labels) ++counts[label];
  std::vector<double> weights;
  weights.reserve(labels.size());
  for (const int32_t label : labels) weights.push_back(1 / static_cast<double>(counts.at(label)));
  return weights;
}

}  // namespace trainer
