// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/decode.h"

#include <cstdlib>

#include "core/base/rng.h"

namespace trainer {
namespace {

/// Small enough for thousands of tries a second: reading files counts, not resizing their pixels.
constexpr int64_t kMostPixels = 1 << 14;

class AnyWindow final : public ViewChooser {
 public:
  explicit AnyWindow(uint64_t seed)
      : seed_(seed), levels_{static_cast<double>(seed % 999) - 99, static_cast<double>(seed % 70001) + 900} {}

  View choose(int64_t height, int64_t width) const override {
    RandomStream random(seed_);
    const int64_t most = seed_ % 32 == 0 ? 300 : 20;
    return {window(height, most, random), window(width, most, random)};
  }
  const PixelWindow* pixel_window() const override { return seed_ % 2 == 0 ? &levels_ : nullptr; }

 private:
  static AxisView window(int64_t size, int64_t most, RandomStream& random) {
    const int64_t length = 1 + random.next_below(size), begin = random.next_below(size - length + 1);
    return {static_cast<double>(begin), static_cast<double>(length), begin, begin + length,
            1 + random.next_below(most)};
  }

  uint64_t seed_;
  PixelWindow levels_;
};

void try_view(MakeDecoder make, std::span<const uint8_t> file, const ViewChooser& chooser) {
  Image image;
  try {
    decode_image(*make(file), chooser, kMostPixels, image);
  } catch (const DecodeError&) {
    return;
  }
  if (image.channels != 3 || image.height < 1 || image.width < 1) std::abort();
  if (static_cast<int64_t>(image.pixels.size()) != 3 * image.height * image.width) std::abort();
}

}  // namespace

void fuzz_decode(MakeDecoder make, const uint8_t* data, size_t size) {
  uint64_t seed = size;
  for (size_t i = 0; i < size; ++i) seed = seed * 31 + data[i];
  try_view(make, {data, size}, WholeView());
  try_view(make, {data, size}, AnyWindow(seed));
}

}  // namespace trainer
