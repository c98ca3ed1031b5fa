// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/data/csv.h"
#include "core/data/images/decode.h"
#include "core/data/images/masks.h"

namespace trainer {
namespace {

/// Takes a line from the front of `text`, without its end.
std::string take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return std::string(line);
}

std::vector<std::string> parse_names(std::string_view text, const std::string& file) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> names;
  std::set<std::string> known;
  while (!text.empty()) {
    names.push_back(take_line(text));
    const auto refuse = [&](const std::string& problem) {
      return Error(ExitCode::data, fmt::format("{}:{}: expected the name of class {} (data.class_names), {}",
                                               one_line(file), names.size(), names.size() - 1, problem));
    };
    if (names.back().empty()) throw refuse("found an empty line");
    if (!known.insert(names.back()).second)
      throw refuse(fmt::format("found '{}' again", one_line(names.back())));
    if (names.size() > static_cast<size_t>(kMostMaskClasses))
      throw refuse(fmt::format("found more than {} lines, which no mask can distinguish", kMostMaskClasses));
  }
  if (names.empty())
    throw Error(ExitCode::data, one_line(file) + ": expected a line for each class, found none");
  return names;
}

}  // namespace

void MaskKeys::declare(Fields& fields) {
  fields
      .section(
          "masks",
          "of format image_folder: a class for every pixel, from grey or palette PNGs of 8 bits; the "
          "folder's images may then be at any depth",
          [this](Fields& section) {
            section
                .add("dir", &dir,
                     "folder of the masks, each under its image's relative path; null: beside the images")
                .bare()
                .left_to_samples();
            section.add("val_dir", &val_dir, "the same for the images of data.val; null: dir")
                .left_to_samples();
            section.add("suffix", &suffix,
                        "of a mask's name, in place of the image's ending, such as _mask.png; null: .png");
            section
                .add("values", &values,
                     "values in the masks of class 0, 1, …, such as [0, 255]; []: each value is its class")
                .at_least(0)
                .at_most(kMostMaskClasses - 1);
          })
      .absent_if_unset();
  fields
      .add("class_names", &class_names,
           "of masks: a text file with the name of class 0, 1, … in its lines; null: no names")
      .left_to_samples()
      .absent_as("null");
}

void MaskKeys::check(const OriginOf& origin_of, Diagnostics& diagnostics) const {
  const auto refuse = [&](const std::string& key, const std::string& text) {
    diagnostics.error(origin_of(key), text);
  };
  if (!any()) {
    const char* needed = "needs data.masks: a folder, or {suffix: _mask.png} for masks beside the images";
    if (val_dir || !values.empty()) refuse("data.masks", needed);
    if (class_names) refuse("data.class_names", needed);
    return;
  }
  if (suffix && (!suffix->ends_with(".png") || suffix->find('/') != std::string::npos))
    refuse("data.masks.suffix",
           fmt::format("must be the end of a file's name, .png included, got '{}'", *suffix));
  if (std::set(values.begin(), values.end()).size() != values.size())
    refuse("data.masks.values", "must differ, as each is a class");
}

std::vector<std::string> MaskKeys::names() const {
  if (!class_names) return {};
  const std::string& file = *class_names;
  const std::optional<std::string> text = read_text(file);
  if (!text) throw Error(ExitCode::data, one_line(file) + ": there is no such file (data.class_names)");
  std::vector<std::string> names = parse_names(*text, file);
  if (!values.empty() && names.size() != values.size())
    throw Error(ExitCode::data,
                fmt::format("{}: expected {} names, one for each of data.masks.values, found {}",
                            one_line(file), values.size(), names.size()));
  return names;
}

MaskValues::MaskValues(const std::vector<int64_t>& values, int64_t classes, std::optional<int64_t> ignored)
    : ignored_(static_cast<uint8_t>(ignored.value_or(kIgnoredPixel))) {
  const int64_t highest = classes == 0 ? kMostMaskClasses : std::min(classes, kMostMaskClasses);
  class_of_.fill(-1);
  class_of_[ignored_] = ignored_;
  expected_ = values.empty() ? AllowedLabels{classes, ignored}.text()
                             : fmt::format("one of data.masks.values, or {}, loss.ignore_index", ignored_);
  for (int64_t c = 0; c < highest; ++c) {
    const auto place = static_cast<size_t>(c);
    if (!values.empty() && place >= values.size()) break;
    class_of_[values.empty() ? place : static_cast<size_t>(values[place])] = static_cast<int16_t>(c);
  }
}

void MaskValues::to_classes(std::vector<uint8_t>& mask, int64_t width) const {
  const auto wrong = std::ranges::find_if(mask, [this](uint8_t value) { return class_of_[value] < 0; });
  if (wrong != mask.end()) {
    const int64_t at = wrong - mask.begin();
    throw DecodeError(fmt::format("the pixel at x {}, y {} has the value {}, expected {}", at % width,
                                  at / width, *wrong, expected_));
  }
  for (uint8_t& value : mask) value = static_cast<uint8_t>(class_of_[value]);
}

}  // namespace trainer
