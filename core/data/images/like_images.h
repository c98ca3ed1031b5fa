// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data/images/image_digest.h"

namespace trainer {

/// The places of readable images with equal contents, each group's ascending; groups in the order of their
/// first.
std::vector<std::vector<size_t>> equal_images(std::span<const ImageDigest> images);

/// Two images that look alike, and the number of bits in which their hashes differ.
struct LikePair {
  size_t first, second;  ///< places, ascending
  int distance;
  bool operator==(const LikePair&) const = default;
};

constexpr int kMostDistance = 16;

/// All pairs of readable images whose hashes differ in at most this many bits, and whose thumbnails differ by
/// at most 3 of 255 (root of the mean square), in the order of their places. Those with equal contents and
/// images of one colour, which all look alike, are left out. Throws Error (exit 65) if they are more than
/// `most`.
std::vector<LikePair> like_images(std::span<const ImageDigest> images, int distance, size_t most = 1000000);

}  // namespace trainer
