// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prediction_gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "apps/trainer/prediction_format.h"
#include "core/data/images/encode_png.h"

namespace trainer {
namespace {

constexpr int64_t kThumbnail = 128;                   ///< pixels of the longer side
constexpr size_t kMostClasses = 2, kMostLabels = 20;  ///< of a tile

std::string thumbnail_png(PredictedImage image) {
  // Of other channels than grey and RGB the first is shown.
  if (image.shape[0] != 3) {
    image.shape[0] = 1;
    image.pixels.resize(static_cast<size_t>(numel(image.shape)));
  }
  const std::vector<uint8_t> pixels = make_thumbnail(image.pixels, image.shape, kThumbnail);
  return encode_png(pixels, image.shape);
}

std::pair<double, int64_t> rank(const PredictedSample& sample) {
  return {sample.judgement->certainty, -sample.number};
}

}  // namespace

bool GalleryTiles::has_room_for(const PredictedSample& sample) const {
  if (!sample.is_wrong()) return others_.size() < kMostTiles;
  return wrong_.size() < kMostTiles || wrong_.begin()->first < rank(sample);
}

void GalleryTiles::add(const PredictedSample& sample, const SampleReader& reader,
                       const std::optional<PredictedImage>& drawn) {
  if (!sample.error.empty() || !has_room_for(sample)) return;
  if (!sample.is_wrong()) {
    others_.push_back(tile_of(sample, reader, drawn));
    return;
  }
  wrong_.emplace(rank(sample), tile_of(sample, reader, drawn));
  if (wrong_.size() > kMostTiles) wrong_.erase(wrong_.begin());
}

GalleryTile GalleryTiles::tile_of(const PredictedSample& sample, const SampleReader& reader,
                                  const std::optional<PredictedImage>& drawn) const {
  GalleryTile tile{
      .images = {thumbnail_png(reader.input_image())},
      .name = sample.file.empty() ? fmt::format("sample {}", sample.number) : sample.file,
      .prediction = prediction_text(sample, class_names_, sample.has_label_set ? kMostLabels : kMostClasses),
      .label = label_text(sample, class_names_),
      .is_wrong = sample.is_wrong()};
  if (drawn) tile.images.push_back(thumbnail_png(*drawn));
  return tile;
}

std::vector<GalleryTile> GalleryTiles::take() {
  std::vector<GalleryTile> tiles;
  std::for_each(wrong_.rbegin(), wrong_.rend(), [&](auto& tile) { tiles.push_back(std::move(tile.second)); });
  const size_t room = std::min(kMostTiles - tiles.size(), others_.size());
  std::move(others_.begin(), others_.begin() + static_cast<std::ptrdiff_t>(room), std::back_inserter(tiles));
  return tiles;
}

}  // namespace trainer
