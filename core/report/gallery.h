// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

/// One sample of a gallery.
struct GalleryTile {
  std::vector<std::string> images;  ///< bytes of PNG files; the first is the sample
  std::string name;                 ///< of its file, or its number
  std::string prediction, label;    ///< in words; the label may be unknown: ""
  bool is_wrong = false;
};

/// Predicted samples, as a page shows them.
struct Gallery {
  std::string title, weights;
  std::vector<GalleryTile> tiles;  ///< in their order on the page, wrong ones first
  int64_t samples = 0, unreadable = 0;
  std::optional<int64_t> wrong;  ///< of all samples; nothing without labels
};

/// An HTML page without any other file: images with their predictions.
std::string gallery_page(const Gallery& gallery);

}  // namespace trainer
