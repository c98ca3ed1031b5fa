// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_digest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <numbers>
#include <span>
#include <thread>

#include "core/base/checksum.h"
#include "core/data/images/resample.h"
#include "core/data/images/view.h"

namespace trainer {
namespace {

constexpr size_t kSide = 32, kFrequencies = 8;
using Square = std::array<std::array<double, kSide>, kSide>;

/// Row k - 1: cosines of frequency k over the side.
std::array<std::array<double, kSide>, kFrequencies> make_cosines() {
  std::array<std::array<double, kSide>, kFrequencies> table{};
  for (size_t k = 0; k < kFrequencies; ++k) {
    for (size_t i = 0; i < kSide; ++i)
      table[k][i] =
          std::cos(std::numbers::pi * static_cast<double>(k + 1) * (static_cast<double>(i) + 0.5) / kSide);
  }
  return table;
}

/// The mean of the channels, as 32 x 32 pixels.
Square small_grey(const Image& image) {
  Image grey;
  grey.resize(1, image.height, image.width);
  const auto area = static_cast<size_t>(image.height * image.width);
  for (size_t i = 0; i < area; ++i) {
    int64_t sum = 0;
    for (int64_t c = 0; c < image.channels; ++c) sum += image.pixels[static_cast<size_t>(c) * area + i];
    grey.pixels[i] = static_cast<uint8_t>(sum / image.channels);
  }
  View view = View::whole(image.height, image.width);
  view.y.out = view.x.out = kSide;
  resample(grey, view);
  Square square{};
  for (size_t i = 0; i < kSide * kSide; ++i) square[i / kSide][i % kSide] = grey.pixels[i];
  return square;
}

/// See appearance_of.
uint64_t hash_of(const Square& square) {
  static const auto cosines = make_cosines();
  std::array<std::array<double, kSide>, kFrequencies> rows{};  // by vertical frequency
  for (size_t k = 0; k < kFrequencies; ++k) {
    for (size_t y = 0; y < kSide; ++y)
      for (size_t x = 0; x < kSide; ++x) rows[k][x] += cosines[k][y] * square[y][x];
  }
  std::array<double, kFrequencies * kFrequencies> transform{};
  for (size_t i = 0; i < transform.size(); ++i) {
    for (size_t x = 0; x < kSide; ++x)
      transform[i] += cosines[i % kFrequencies][x] * rows[i / kFrequencies][x];
  }
  std::array<double, kFrequencies* kFrequencies> sorted = transform;
  std::ranges::sort(sorted);
  const double median = (sorted[sorted.size() / 2 - 1] + sorted[sorted.size() / 2]) / 2;
  uint64_t hash = 0;
  for (size_t i = 0; i < transform.size(); ++i) hash |= uint64_t{transform[i] > median} << i;
  return hash;
}

/// Means of 4 x 4 pixels.
std::array<uint8_t, 64> thumbnail_of(const Square& square) {
  constexpr size_t kEach = kSide / 8;
  std::array<uint8_t, 64> thumbnail{};
  for (size_t i = 0; i < thumbnail.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < kEach * kEach; ++k)
      sum += square[i / 8 * kEach + k / kEach][i % 8 * kEach + k % kEach];
    thumbnail[i] = static_cast<uint8_t>(std::lround(sum / (kEach * kEach)));
  }
  return thumbnail;
}

template <class T>
uint64_t checksum_of(const std::vector<T>& values) {
  return checksum(std::as_bytes(std::span(values)));
}

uint64_t labels_of(const ImageSource& source, const Image& image) {
  if (source.has_masks()) return checksum_of(image.mask);
  if (!source.has_label_sets()) return static_cast<uint64_t>(image.label);
  return checksum(std::as_bytes(source.label_set(image)));
}

bool has_one_color(const Image& image) {
  const auto area = static_cast<std::ptrdiff_t>(image.height * image.width);
  for (auto plane = image.pixels.begin(); plane != image.pixels.end(); plane += area) {
    if (!std::all_of(plane, plane + area, [&](uint8_t pixel) { return pixel == *plane; })) return false;
  }
  return true;
}

ImageDigest digest_of(const ImageSource& source, const Image& image) {
  Checksum contents;
  const std::array<int64_t, 3> size = {image.channels, image.height, image.width};
  contents.add(std::as_bytes(std::span(size)));
  contents.add(std::as_bytes(std::span(image.pixels)));
  return {.contents = contents.value(),
          .appearance = appearance_of(image),
          .labels = labels_of(source, image),
          .is_readable = true,
          .is_one_color = has_one_color(image)};
}

}  // namespace

Appearance appearance_of(const Image& image) {
  const Square square = small_grey(image);
  return {.hash = hash_of(square), .thumbnail = thumbnail_of(square)};
}

std::vector<ImageDigest> digest(const ImageSource& source, int64_t threads, const PixelWindow* window) {
  const int64_t size = source.size(), parts = std::clamp<int64_t>(threads, 1, std::max<int64_t>(size, 1));
  std::vector<ImageDigest> digests(static_cast<size_t>(size));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(parts));
  const auto read = [&](int64_t part) {
    Image image;
    try {
      for (int64_t i = size * part / parts; i < size * (part + 1) / parts; ++i) {
        try {
          window == nullptr ? source.read(i, image) : source.read_view(i, WholeView(window), image);
          digests[static_cast<size_t>(i)] = digest_of(source, image);
        } catch (const UnreadableSampleError&) {  // has no digest
        }
      }
    } catch (...) {
      errors[static_cast<size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> running;
    for (int64_t part = 1; part < parts; ++part) running.emplace_back(read, part);
    read(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return digests;
}

}  // namespace trainer
