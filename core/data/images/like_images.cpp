// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/like_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "core/base/error.h"

namespace trainer {
namespace {

/// The bits of a part of the hash.
struct BitRange {
  int begin, count;
  uint64_t of(uint64_t hash) const { return (hash >> begin) & ((uint64_t{1} << count) - 1); }
};

/// Equal parts of the hash, one more than the bits that may differ: one part of a pair is then the same.
std::vector<BitRange> parts_for(int distance) {
  constexpr int kBits = 64;
  std::vector<BitRange> parts;
  const int count = distance + 1;
  for (int i = 0; i < count; ++i)
    parts.push_back({kBits * i / count, kBits * (i + 1) / count - kBits * i / count});
  if (count == 1) parts = {{0, 32}};
  return parts;
}

/// JPEG of quality 75 changes the thumbnail of 28 x 28 pixels by 1.5, and in 99 of 100 by less than 2.2;
/// larger images change less. Of Fashion-MNIST's 49,619 pairs whose hashes differ in up to 4 bits, 40 differ
/// by less, and those are of one object; between 3 and 3.5 they no longer are.
constexpr double kMostDifference = 3;

bool look_alike(const std::array<uint8_t, 64>& a, const std::array<uint8_t, 64>& b) {
  int sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum <= kMostDifference * kMostDifference * 64;
}

/// Pairs are found in the first part that both have in common.
bool has_common_part(std::span<const BitRange> earlier, uint64_t a, uint64_t b) {
  return std::ranges::any_of(earlier, [=](const BitRange& part) { return part.of(a) == part.of(b); });
}

}  // namespace

std::vector<std::vector<size_t>> equal_images(std::span<const ImageDigest> images) {
  std::vector<size_t> order;
  for (size_t i = 0; i < images.size(); ++i) {
    if (images[i].is_readable) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return images[i].contents; });
  std::vector<std::vector<size_t>> groups;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && images[order[end]].contents == images[order[begin]].contents) ++end;
    if (end - begin > 1)
      groups.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                          order.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  std::ranges::sort(groups);
  return groups;
}

std::vector<LikePair> like_images(std::span<const ImageDigest> images, int distance, size_t most) {
  std::vector<size_t> order;
  for (size_t i = 0; i < images.size(); ++i) {
    if (images[i].is_readable && !images[i].is_one_color) order.push_back(i);
  }
  std::vector<LikePair> pairs;
  const auto compare = [&](std::span<const BitRange> earlier, size_t i, size_t j) {
    const ImageDigest &a = images[i], &b = images[j];
    const uint64_t of_a = a.appearance.hash, of_b = b.appearance.hash;
    const int bits = std::popcount(of_a ^ of_b);
    if (bits > distance || a.contents == b.contents || has_common_part(earlier, of_a, of_b)) return;
    if (!look_alike(a.appearance.thumbnail, b.appearance.thumbnail)) return;
    pairs.push_back({std::min(i, j), std::max(i, j), bits});
    if (pairs.size() > most)
      throw Error(ExitCode::data,
                  fmt::format("more than {} pairs of images differ in at most {} bits of their hashes; "
                              "choose a smaller --distance",
                              most, distance));
  };
  const std::vector<BitRange> parts = parts_for(distance);
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::span earlier(parts.data(), p);
    const auto bits_of = [&](size_t i) { return parts[p].of(images[i].appearance.hash); };
    std::ranges::sort(order, {}, bits_of);
    for (size_t begin = 0; begin < order.size();) {
      size_t end = begin + 1;
      while (end < order.size() && bits_of(order[end]) == bits_of(order[begin])) ++end;
      for (size_t i = begin; i < end; ++i)
        for (size_t j = i + 1; j < end; ++j) compare(earlier, order[i], order[j]);
      begin = end;
    }
  }
  std::ranges::sort(pairs, {}, [](const LikePair& pair) { return std::tuple(pair.first, pair.second); });
  return pairs;
}

}  // namespace trainer
