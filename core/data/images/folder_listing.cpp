// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/folder_listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/images/image_files.h"
#include "core/data/images/label_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The system's own errors name the path already.
template <class Act>
auto listing(const Act& act) try {
  return act();
} catch (const fs::filesystem_error& error) {
  throw Error(ExitCode::io, fmt::format("{}: cannot be listed: {}", one_line(error.path1().string()),
                                        error.code().message()));
}

void require_folder(const std::string& folder) {
  if (!fs::is_directory(folder))
    throw Error(ExitCode::data, one_line(folder) + ": expected a folder, found a file");
}

std::vector<std::string> listed_classes(const std::string& folder, SkippedFiles& skipped) {
  require_folder(folder);
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : directory_entries(folder)) {
    if (is_hidden_name(entry.path())) continue;
    if (entry.is_directory()) {
      names.push_back(entry.path().filename().string());
    } else if (is_image_name(entry.path())) {
      skipped.add("outside the class folders");
    } else {
      skipped.add_file(entry.path());
    }
  }
  if (names.empty()) {
    throw Error(
        ExitCode::data,
        one_line(folder) +
            ": expected a folder for each class, found none; or name a CSV file of labels with data.labels");
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> class_folders(const std::string& folder, SkippedFiles& skipped) {
  return listing([&] { return listed_classes(folder, skipped); });
}

bool is_flat_folder(const std::string& folder) {
  return listing([&] {
    return fs::is_directory(folder) &&
           std::ranges::none_of(directory_entries(folder), [](const DirectoryEntry& entry) {
             return entry.is_directory() && !is_hidden_name(entry.path());
           });
  });
}

FolderListing::FolderListing(const ImageFolders& folders) : root_(folders.path) {
  listing([&] {
    if (!folders.labels.empty()) return add_rows(folders);
    return folders.is_unlabelled && is_flat_folder(root_) ? add_all() : add_folders();
  });
  text_.shrink_to_fit();
  end_.shrink_to_fit();
}

int32_t FolderListing::label(int64_t index) const {
  if (has_sets()) return static_cast<int32_t>(index);
  if (!labels_.empty()) return labels_[static_cast<size_t>(index)];
  if (classes_.empty()) return 0;
  const auto after = std::upper_bound(class_begin_.begin(), class_begin_.end(), index);
  return static_cast<int32_t>(after - class_begin_.begin()) - 1;
}

std::span<const int32_t> FolderListing::set(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  const size_t begin = i == 0 ? 0 : set_end_[i - 1];
  return std::span(sets_).subspan(begin, set_end_[i] - begin);
}

std::optional<int32_t> FolderListing::group(int64_t index) const {
  return groups_.empty() ? std::nullopt : std::optional(groups_[static_cast<size_t>(index)]);
}

std::string FolderListing::name(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  const size_t begin = i == 0 ? 0 : end_[i - 1];
  const std::string text = text_.substr(begin, end_[i] - begin);
  const bool is_in_class = labels_.empty() && !has_sets() && !classes_.empty();
  return is_in_class ? classes_[static_cast<size_t>(label(index))] + "/" + text : text;
}

std::string FolderListing::path(int64_t index) const {
  return (fs::path(root_) / name(index)).string();
}

int64_t FolderListing::bytes() const {
  return static_cast<int64_t>(text_.capacity() + end_.capacity() * sizeof(size_t) +
                              (labels_.capacity() + sets_.capacity() + groups_.capacity()) * sizeof(int32_t) +
                              set_end_.capacity() * sizeof(size_t));
}

void FolderListing::add_folders() {
  classes_ = listed_classes(root_, skipped_);
  for (const std::string& name : classes_) {
    class_begin_.push_back(size());
    SkippedFiles skipped;
    const fs::path folder = fs::path(root_) / name;
    for (const std::string& image : images_below(folder, skipped)) add(image);
    if (size() == class_begin_.back()) throw no_images(folder, skipped);
    for (const auto& [type, count] : skipped.by_type()) skipped_.add(type, count);
  }
}

void FolderListing::add_all() {
  for (const std::string& image : images_below(root_, skipped_)) add(image);
  if (size() == 0) throw no_images(root_, skipped_);
}

void FolderListing::add_rows(const ImageFolders& folders) {
  require_folder(root_);
  const std::vector<std::string> images = images_below(root_, skipped_);
  LabelFile rows = read_label_file(folders.labels, root_, images, folders.split_by);
  for (const size_t image : rows.image) add(images[image]);
  skipped_.add("images without a label", static_cast<int64_t>(images.size() - rows.image.size()));
  skipped_.add("rows of images elsewhere", rows.rows_elsewhere);
  classes_ = std::move(rows.classes);
  labels_ = std::move(rows.label);
  set_end_ = std::move(rows.set_end);
  sets_ = std::move(rows.sets);
  groups_ = std::move(rows.group);
  for (auto* numbers : {&labels_, &sets_, &groups_}) numbers->shrink_to_fit();
  set_end_.shrink_to_fit();
}

void FolderListing::add(const std::string& name) {
  text_ += name;
  end_.push_back(text_.size());
}

}  // namespace trainer
