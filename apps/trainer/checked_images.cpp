// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/checked_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/printable.h"
#include "core/data/formats.h"
#include "core/data/images/like_images.h"
#include "core/recipe/job.h"

namespace trainer {

CheckedImages::CheckedImages(const std::shared_ptr<const Recipe>& recipe)
    : are_in_one_place_(recipe->data.divides_train()) {
  for (const Split side : {Split::train, Split::val}) {
    if (has_split(recipe->data, side)) add(recipe, side);
  }
}

void CheckedImages::add(const RunSpec& spec, Split side) {
  const Recipe& recipe = spec.recipe();
  Part part{
      .side = side, .source = open_stored(recipe.data, source_request(spec, side)), .first = images_.size()};
  const std::vector<ImageDigest> found = digest(as_images(*part.source), recipe.data.worker_count(1),
                                                pixel_window(recipe.data.images.transform_list(side)));
  images_.insert(images_.end(), found.begin(), found.end());
  parts_.push_back(std::move(part));
}

std::vector<CheckList> CheckedImages::lists(int distance) const {
  const std::vector<std::vector<size_t>> groups = equal_images(images_);
  return {equal_list(groups), contradiction_list(groups), like_list(distance),
          place_list("one_color", "images of one colour",
                     [](const ImageDigest& image) { return image.is_readable && image.is_one_color; }),
          place_list("unreadable", "images that cannot be read",
                     [](const ImageDigest& image) { return !image.is_readable; })};
}

int64_t CheckedImages::size(Split side) const {
  int64_t size = 0;
  for (const Part& part : parts_) size += part.side == side ? part.source->size() : 0;
  return size;
}

const CheckedImages::Part& CheckedImages::part_of(size_t place) const {
  return *std::ranges::find_if(parts_.rbegin(), parts_.rend(),
                               [&](const Part& part) { return part.first <= place; });
}

CheckedSample CheckedImages::sample(size_t place) const {
  const Part& part = part_of(place);
  return {.side = part.side,
          .stored = are_in_one_place_ ? Split::train : part.side,
          .name = exclude_name(*part.source, static_cast<int64_t>(place - part.first), "")};
}

/// Of an image with one label.
std::string CheckedImages::label_text(size_t place) const {
  const ImageSource& source = as_images(*part_of(place).source);
  if (source.has_masks() || source.has_label_sets()) return "";
  const uint64_t label = images_[place].labels;
  const std::vector<std::string> names = source.class_names();
  return label < names.size() ? one_line(names[label]) : std::to_string(label);
}

CheckList CheckedImages::equal_list(const std::vector<std::vector<size_t>>& groups) const {
  CheckList list{.key = "exact_duplicates", .title = "groups of equal images"};
  for (const std::vector<size_t>& group : groups) {
    std::vector<CheckedSample> samples;
    for (const size_t place : group) samples.push_back(sample(place));
    list.rows.push_back(row_of_copies(std::move(samples)));
  }
  return list;
}

CheckList CheckedImages::contradiction_list(const std::vector<std::vector<size_t>>& groups) const {
  CheckList list{.key = "contradictory_labels", .title = "groups of equal images with different labels"};
  for (const std::vector<size_t>& group : groups) {
    const auto has_other_labels = [&](size_t place) {
      return images_[place].labels != images_[group[0]].labels;
    };
    if (std::ranges::none_of(group, has_other_labels)) continue;
    std::vector<CheckedSample> samples;
    std::vector<std::string> labels;
    for (const size_t place : group) {
      samples.push_back(sample(place));
      labels.push_back(label_text(place));
    }
    list.rows.push_back(row_of_contradiction(samples, labels));
  }
  return list;
}

CheckList CheckedImages::like_list(int distance) const {
  CheckList list{.key = "near_duplicates",
                 .title = fmt::format("pairs of images that look alike (--distance {})", distance)};
  for (const LikePair& pair : like_images(images_, distance)) {
    std::vector<CheckedSample> samples = {sample(pair.first), sample(pair.second)};
    list.rows.push_back(
        {.text = fmt::format("{} ~ {}, distance {}", samples[0].text(), samples[1].text(), pair.distance),
         .json = {{"samples", json_of(samples)}, {"distance", pair.distance}},
         .left_out = all_but_one(std::move(samples))});
  }
  return list;
}

CheckList CheckedImages::place_list(const std::string& key, const std::string& title,
                                    bool (*is_meant)(const ImageDigest&)) const {
  CheckList list{.key = key, .title = title};
  for (size_t place = 0; place < images_.size(); ++place) {
    if (!is_meant(images_[place])) continue;
    const CheckedSample found = sample(place);
    list.rows.push_back({.text = found.text(), .json = found.json(), .left_out = {found}});
  }
  return list;
}

}  // namespace trainer
