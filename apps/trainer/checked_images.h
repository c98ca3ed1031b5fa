// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/trainer/check_list.h"
#include "core/data/images/image_digest.h"
#include "core/recipe/run_spec.h"

namespace trainer {

/// The images of both splits with their digests.
class CheckedImages {
 public:
  /// Reads them all. Throws Error as opening data does.
  explicit CheckedImages(const std::shared_ptr<const Recipe>& recipe);

  /// Equal images, equal ones with different labels, those that look alike, those of one colour, and
  /// unreadable ones.
  std::vector<CheckList> lists(int distance) const;
  int64_t size(Split side) const;

 private:
  struct Part {
    Split side;
    std::unique_ptr<DataSource> source;
    size_t first;  ///< of its images among all
  };
  void add(const RunSpec& spec, Split side);
  const Part& part_of(size_t place) const;
  CheckedSample sample(size_t place) const;
  std::string label_text(size_t place) const;
  CheckList equal_list(const std::vector<std::vector<size_t>>& groups) const;
  CheckList contradiction_list(const std::vector<std::vector<size_t>>& groups) const;
  CheckList like_list(int distance) const;
  CheckList place_list(const std::string& key, const std::string& title,
                       bool (*is_meant)(const ImageDigest&)) const;

  bool are_in_one_place_;  ///< both splits are in the files of data.train
  std::vector<Part> parts_;
  std::vector<ImageDigest> images_;
};

}  // namespace trainer
