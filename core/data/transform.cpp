// SPDX-License-Identifier: Apache-2.0
#include "core/data/transform.h"

#include <fmt/core.h>

#include <algorithm>

namespace trainer {

TransformChain::TransformChain(const TransformList& list, const Shape& input, Diagnostics& diagnostics)
    : input_(input), output_(input), most_bytes_(numel(input)) {
  const Transform* terminal = nullptr;
  for (const auto& step : list) {
    most_bytes_ = std::max(most_bytes_, step->most_bytes(output_));
    output_ = step->output_shape(output_, diagnostics);
    most_bytes_ = std::max(most_bytes_, numel(output_));
    if (step->is_terminal()) {
      terminal = step.get();
    } else {
      steps_.push_back(step.get());
    }
  }
  if (!diagnostics.ok()) return;
  const auto channels = static_cast<size_t>(output_[0]);
  const PixelMap unit_range{std::vector<float>(channels, 1.0f / 255), std::vector<float>(channels, 0.0f)};
  map_ = terminal != nullptr ? terminal->pixel_map(output_[0]) : unit_range;
}

Image TransformChain::make_image() const {
  Image image;
  image.pixels.reserve(static_cast<size_t>(most_bytes_));
  image.spare.reserve(static_cast<size_t>(most_bytes_));
  return image;
}

void TransformChain::apply(Image& image, RandomStream& random) const {
  for (const Transform* step : steps_) step->apply(image, random);
}

void TransformChain::write(const Image& image, float* row) const {
  if (image.channels != output_[0] || image.height != output_[1] || image.width != output_[2]) {
    throw Error(ExitCode::data, fmt::format("a sample has shape {}x{}x{} after its transforms, expected {}",
                                            image.channels, image.height, image.width, to_string(output_)));
  }
  const int64_t plane = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c) {
    const uint8_t* __restrict src = image.pixels.data() + c * plane;
    float* __restrict dst = row + c * plane;
    const float scale = map_.scale[static_cast<size_t>(c)], offset = map_.offset[static_cast<size_t>(c)];
    for (int64_t i = 0; i < plane; ++i) dst[i] = scale * static_cast<float>(src[i]) + offset;
  }
}

}  // namespace trainer
