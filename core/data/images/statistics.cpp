// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace trainer {
namespace {

/// Sums over some of the samples: whole numbers, so that their order does not matter.
struct Sums {
  std::vector<int64_t> per_class, heights, widths;
  std::vector<int64_t> pixels, values, squares;  // by channel
  int64_t ignored_pixels = 0;
  std::vector<UnreadableSample> unreadable;
  std::exception_ptr error;

  void add_label(int32_t label, int64_t count = 1) {
    const auto place = static_cast<size_t>(label);
    if (place >= per_class.size()) per_class.resize(place + 1);
    per_class[place] += count;
  }

  void add_mask(const std::vector<uint8_t>& mask, uint8_t ignored) {
    std::array<int64_t, 256> counts{};
    for (const uint8_t value : mask) ++counts[value];
    ignored_pixels += std::exchange(counts[ignored], 0);
    for (size_t c = 0; c < counts.size(); ++c) {
      if (counts[c] > 0) add_label(static_cast<int32_t>(c), counts[c]);
    }
  }

  void add(const Image& image) {
    const auto channels = static_cast<size_t>(image.channels);
    heights.push_back(image.height);
    widths.push_back(image.width);
    for (auto* sums : {&pixels, &values, &squares}) sums->resize(std::max(sums->size(), channels));
    const int64_t plane = image.height * image.width;
    for (size_t c = 0; c < channels; ++c) {
      const uint8_t* pixel = image.pixels.data() + static_cast<int64_t>(c) * plane;
      int64_t sum = 0, square = 0;
      for (int64_t i = 0; i < plane; ++i) sum += pixel[i], square += int32_t{pixel[i]} * pixel[i];
      pixels[c] += plane, values[c] += sum, squares[c] += square;
    }
  }

  void add(const Sums& other) {
    const auto merge = [](std::vector<int64_t>& into, const std::vector<int64_t>& from) {
      into.resize(std::max(into.size(), from.size()));
      std::transform(from.begin(), from.end(), into.begin(), into.begin(), std::plus<>());
    };
    merge(per_class, other.per_class);
    ignored_pixels += other.ignored_pixels;
    merge(pixels, other.pixels);
    merge(values, other.values);
    merge(squares, other.squares);
    heights.insert(heights.end(), other.heights.begin(), other.heights.end());
    widths.insert(widths.end(), other.widths.begin(), other.widths.end());
    unreadable.insert(unreadable.end(), other.unreadable.begin(), other.unreadable.end());
    if (!error) error = other.error;
  }
};

void read_range(const ImageSource& source, const PixelWindow* window, int64_t begin, int64_t end,
                Sums& sums) {
  Image image;
  try {
    for (int64_t i = begin; i < end; ++i) {
      try {
        window == nullptr ? source.read(i, image) : source.read_view(i, WholeView(window), image);
        sums.add(image);
        if (source.has_masks()) {
          sums.add_mask(image.mask, *source.ignored_pixel());
        } else if (source.has_label_sets()) {
          for (const int32_t label : source.label_set(image)) sums.add_label(label);
        } else {
          sums.add_label(image.label);
        }
      } catch (const UnreadableSampleError& unreadable) {
        sums.unreadable.push_back(unreadable.sample());
      }
    }
  } catch (...) {
    sums.error = std::current_exception();
  }
}

Sizes sizes_of(std::vector<int64_t>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[(values.size() - 1) / 2], values.back()};
}

}  // namespace

SplitStatistics measure(const ImageSource& source, int64_t threads, const PixelWindow* window) {
  const int64_t size = source.size(), parts = std::clamp<int64_t>(threads, 1, size);
  std::vector<Sums> sums(static_cast<size_t>(parts));
  {
    std::vector<std::jthread> running;
    for (int64_t i = 0; i < parts; ++i) {
      running.emplace_back([&source, window, &mine = sums[static_cast<size_t>(i)], begin = size * i / parts,
                            end = size * (i + 1) / parts] { read_range(source, window, begin, end, mine); });
    }
  }
  Sums all;
  for (const Sums& part : sums) all.add(part);
  if (all.error) std::rethrow_exception(all.error);

  SplitStatistics found{.samples = size, .per_class = all.per_class, .class_names = source.class_names()};
  found.per_class.resize(std::max(all.per_class.size(), static_cast<size_t>(source.classes())));
  if (source.has_masks()) found.ignored_pixels = all.ignored_pixels;
  found.height = sizes_of(all.heights);
  found.width = sizes_of(all.widths);
  for (size_t c = 0; c < all.pixels.size(); ++c) {
    const auto count = static_cast<double>(all.pixels[c]);
    const double mean = static_cast<double>(all.values[c]) / count;
    const double variance = static_cast<double>(all.squares[c]) / count - mean * mean;
    found.mean.push_back(mean / 255);
    found.deviation.push_back(std::sqrt(std::max(0.0, variance)) / 255);
  }
  found.unreadable = std::move(all.unreadable);
  return found;
}

}  // namespace trainer
