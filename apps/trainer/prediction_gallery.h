// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/trainer/predicted_sample.h"
#include "core/report/gallery.h"

namespace trainer {

/// Collects the tiles of a gallery: the wrong predictions that are most certain, then the first others. Keeps
/// no more than a page shows.
class GalleryTiles {
 public:
  static constexpr size_t kMostTiles = 300;

  explicit GalleryTiles(const std::vector<std::string>& class_names) : class_names_(class_names) {}

  /// `input` is the sample, `drawn` an image of its prediction if the task draws some.
  void add(const PredictedSample& sample, const SampleReader& reader,
           const std::optional<PredictedImage>& drawn);
  /// In the page's order.
  std::vector<GalleryTile> take();

 private:
  bool has_room_for(const PredictedSample& sample) const;
  GalleryTile tile_of(const PredictedSample& sample, const SampleReader& reader,
                      const std::optional<PredictedImage>& drawn) const;

  const std::vector<std::string>& class_names_;
  /// By certainty and, descending, by number, so that the first is the one to give up.
  std::map<std::pair<double, int64_t>, GalleryTile> wrong_;
  std::vector<GalleryTile> others_;
};

}  // namespace trainer
