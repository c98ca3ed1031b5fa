// SPDX-License-Identifier: Apache-2.0
#include "core/data/csv.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/exclude.h"
#include "core/data/images/label_file.h"
#include "core/data/images/sample_weights.h"

namespace {

using trainer::CsvRow;

std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  trainer::CsvReader reader(text, "x.csv");
  std::vector<std::vector<std::string>> rows;
  int64_t line = 0;
  for (CsvRow row; reader.next(row); rows.push_back(row.texts())) {
    if (row.fields.empty() || row.line <= line) std::abort();
    line = row.line;
  }
  return rows;
}

/// With every field in quotes.
std::string text_of(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const std::vector<std::string>& fields : rows) {
    for (const std::string& field : fields) {
      text += &field == fields.data() ? "\"" : ",\"";
      for (const char c : field) text += c == '"' ? std::string(2, c) : std::string(1, c);
      text += '"';
    }
    text += "\r\n";
  }
  return text;
}

/// Labels of three images: ends the process if they are inconsistent.
void check_labels(const std::string& text) {
  const std::vector<std::string> images = {"1.png", "2.png", "a/b.jpg"};
  const trainer::LabelFile found = trainer::parse_label_file(text, "x.csv", "folder", images);
  const size_t rows = found.image.size(), classes = found.classes.size();
  if (rows == 0 || rows > images.size() || classes == 0) std::abort();
  if (!found.set_end.empty() ? rows != images.size() || found.set_end.size() != rows
                             : found.label.size() != rows)
    std::abort();
  for (const int32_t label : found.label) {
    if (static_cast<size_t>(label) >= classes) std::abort();
  }
  size_t begin = 0;
  for (const size_t end : found.set_end) {
    if (end < begin || end > found.sets.size()) std::abort();
    for (size_t i = begin; i < end; ++i) {
      if (static_cast<size_t>(found.sets[i]) >= classes || (i > begin && found.sets[i] <= found.sets[i - 1]))
        std::abort();
    }
    begin = end;
  }
}

/// Two samples with names.
class NamedSource final : public trainer::ImageSource {
 public:
  int64_t size() const override { return 2; }
  trainer::Shape sample_shape() const override { return {1, 1, 1}; }
  int64_t classes() const override { return 1; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const trainer::AllowedLabels&) const override {}
  std::string sample_name(int64_t index) const override { return index == 0 ? "1.png" : "a/b.jpg"; }
  void read(int64_t, trainer::Image&) const override { std::abort(); }
};

/// Weights of two samples: ends the process if they are no weights.
void check_weights(const std::string& text) {
  const std::vector<double> weights = trainer::parse_sample_weights(text, "x.csv", NamedSource());
  if (weights.size() != 2 || !(weights[0] >= 0) || !(weights[1] >= 0)) std::abort();
}

/// Samples to exclude, of twelve with or without names: ends the process if they are no numbers of samples.
void check_excluded(const std::string& text) {
  trainer::StoredSamples samples{.split = trainer::Split::val, .size = 12};
  if (text.size() % 2 == 0) samples.name = [](int64_t index) { return std::to_string(index) + " x.png"; };
  const std::vector<int64_t> found = trainer::parse_excluded(text, "x.csv", samples);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] < 0 || found[i] >= 12 || (i > 0 && found[i] <= found[i - 1])) std::abort();
  }
}

void expect_refusal(const trainer::Error& error) {
  if (error.code() != trainer::ExitCode::data) std::abort();
  if (!std::string(error.what()).starts_with("x.csv:")) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto rows = rows_of({reinterpret_cast<const char*>(data), size});
    if (rows_of(text_of(rows)) != rows) std::abort();
  } catch (const trainer::Error& error) {
    expect_refusal(error);
  }
  try {
    check_labels({reinterpret_cast<const char*>(data), size});
  } catch (const trainer::Error& error) {
    expect_refusal(error);
  }
  try {
    check_weights({reinterpret_cast<const char*>(data), size});
  } catch (const trainer::Error& error) {
    expect_refusal(error);
  }
  try {
    check_excluded({reinterpret_cast<const char*>(data), size});
  } catch (const trainer::Error& error) {
    expect_refusal(error);
  }
  return 0;
}
