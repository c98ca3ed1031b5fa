// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/named_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/base/printable.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::string absolute_text(const fs::path& path) {
  return (fs::absolute(path).lexically_normal() / "").string();  // with one slash at its end
}

std::string_view file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view without_ending(std::string_view path) {
  return path.substr(0, path.size() - fs::path(path).extension().native().size());
}

}  // namespace

NamedImages::NamedImages(const std::string& table, const std::string& folder,
                         const std::vector<std::string>& images)
    : folder_(folder),
      images_(images),
      table_folder_(absolute_text(fs::absolute(table).parent_path())),
      full_folder_(absolute_text(folder)),
      is_outside_(!table_folder_.starts_with(full_folder_)),
      line_of_(images.size()) {}

std::optional<size_t> NamedImages::exact_place(const std::string& name) const {
  const auto found = std::ranges::lower_bound(images_, name);
  if (found == images_.end() || *found != name) return std::nullopt;
  return static_cast<size_t>(found - images_.begin());
}

const std::vector<NamedImages::Name>& NamedImages::short_names() const {
  if (!short_names_.empty()) return short_names_;
  for (size_t i = 0; i < images_.size(); ++i) {
    const std::string_view path = images_[i], name = file_name(path);
    for (const std::string_view text : {without_ending(path), name, without_ending(name)})
      short_names_.emplace_back(text, i);
  }
  std::ranges::sort(short_names_);
  short_names_.erase(std::unique(short_names_.begin(), short_names_.end()), short_names_.end());
  return short_names_;
}

std::vector<size_t> NamedImages::places_of(const std::string& field) const {
  if (field.empty()) return {};
  if (const auto place = exact_place(fs::path(field).lexically_normal().string())) return {*place};
  if (is_outside_) {
    const std::string full = (fs::path(table_folder_) / field).lexically_normal().string();
    if (full.starts_with(full_folder_)) {
      if (const auto place = exact_place(full.substr(full_folder_.size()))) return {*place};
    }
  }
  std::vector<size_t> places;
  for (auto at = std::ranges::lower_bound(short_names(), Name{field, 0});
       at != short_names_.end() && at->first == field; ++at)
    places.push_back(at->second);
  return places;
}

std::optional<size_t> NamedImages::take(const CsvReader& reader, const CsvRow& row,
                                        const std::string& field) {
  if (field.empty()) reader.fail(row.line, "the name of the file is empty");
  const std::vector<size_t> places = places_of(field);
  if (places.empty() && is_outside_) return std::nullopt;
  if (places.empty())
    reader.fail(row.line,
                fmt::format("there is no image '{:.200}' in {}", one_line(field), one_line(folder_)));
  if (places.size() > 1) {
    reader.fail(row.line, fmt::format("'{:.200}' names {} images in {}, such as {} and {}; write their paths",
                                      one_line(field), places.size(), one_line(folder_),
                                      one_line(images_[places[0]]), one_line(images_[places[1]])));
  }
  int64_t& line = line_of_[places.front()];
  if (line != 0)
    reader.fail(row.line, fmt::format("'{:.200}' is named in line {} already; keep one of the rows",
                                      one_line(field), line));
  line = row.line;
  return places.front();
}

void NamedImages::require_all(const CsvReader& reader, int64_t last_line) const {
  const auto missing = std::ranges::count(line_of_, 0);
  if (missing == 0) return;
  const auto first = static_cast<size_t>(std::ranges::find(line_of_, 0) - line_of_.begin());
  reader.fail(last_line,
              fmt::format("the rows end without one for '{}'{}; each image in {} needs one, with 0 for "
                          "each class that it lacks",
                          one_line(images_[first]),
                          missing == 1 ? "" : fmt::format(" and {} more", missing - 1), one_line(folder_)));
}

}  // namespace trainer
