// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/images/image_folder.h"

namespace trainer {

/// The sub-folders of a folder, sorted: the classes. Adds the files beside them to `skipped`. Throws Error:
/// exit 65 if there are none, 74 from the system.
std::vector<std::string> class_folders(const std::string& folder, SkippedFiles& skipped);

/// Whether a folder has no sub-folders: its images have no labels.
bool is_flat_folder(const std::string& folder);

/// The samples of a folder: the names and labels of all, in their order. A million names are kept in one
/// text, as each would otherwise cost two allocations. Throws as open_image_folder.
class FolderListing {
 public:
  explicit FolderListing(const ImageFolders& folders);

  int64_t size() const { return static_cast<int64_t>(end_.size()); }
  const std::vector<std::string>& classes() const { return classes_; }
  const SkippedFiles& skipped() const { return skipped_; }

  bool has_sets() const { return !set_end_.empty(); }
  /// Of sets the sample's own number; 0 without labels.
  int32_t label(int64_t index) const;
  std::span<const int32_t> set(int64_t index) const;
  /// By the column of data.split_by; none without it.
  std::optional<int32_t> group(int64_t index) const;

  std::string name(int64_t index) const;  ///< below the folder of all
  std::string path(int64_t index) const;
  int64_t bytes() const;

 private:
  void add_folders();
  void add_all();
  void add_rows(const ImageFolders& folders);
  void add(const std::string& name);

  std::string root_;
  SkippedFiles skipped_;
  std::vector<std::string> classes_;
  std::vector<int64_t> class_begin_;  // number of each class's first sample
  std::vector<int32_t> labels_;       // of all samples, if a file gives them
  std::vector<size_t> set_end_;       // of each sample's classes in sets_, if a file gives sets of them
  std::vector<int32_t> sets_;
  std::vector<int32_t> groups_;  // of all samples, if a column of the file gives them
  std::string text_;  // names below the class's folder or, with labels, below the root, one after another
  std::vector<size_t> end_;  // of each name
};

}  // namespace trainer
