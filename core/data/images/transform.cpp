// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transform.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/multiversion.h"
#include "core/data/images/channels.h"
#include "core/data/images/resample.h"

namespace trainer {
namespace {

/// The image size that results from the views at the head of a list.
class HeadView final : public ViewChooser {
 public:
  HeadView(const PixelWindow* window, const std::vector<const ViewTransform*>& head,
           const RandomStream& random)
      : window_(window), head_(head), first_(random), random_(random) {}

  const PixelWindow* pixel_window() const override { return window_; }

  View choose(int64_t height, int64_t width) const override {
    random_ = first_;
    if (head_.empty()) return View::whole(height, width);
    View view = head_.front()->view(height, width, random_);
    for (size_t i = 1; i < head_.size(); ++i) {
      view = narrowed(view, head_[i]->view(view.y.out, view.x.out, random_));
    }
    return view;
  }

  /// For the steps after the head.
  RandomStream& random() { return random_; }

 private:
  const PixelWindow* window_;
  const std::vector<const ViewTransform*>& head_;
  RandomStream first_;
  mutable RandomStream random_;  // starts again with each choice
};

/// Its text is compiled for several instruction sets: a crop for ImageNet has 150,000 numbers.
TRAINER_MULTIVERSION void scale_bytes(const uint8_t* __restrict src, float scale, float offset, int64_t count,
                                      float* __restrict dst) {
  for (int64_t i = 0; i < count; ++i) dst[i] = scale * static_cast<float>(src[i]) + offset;
}

}  // namespace

void ViewTransform::apply(Image& image, RandomStream& random) const {
  resample(image, view(image.height, image.width, random));
}

void check_masks_follow(const TransformList& list, Diagnostics& diagnostics) {
  for (const auto& step : list) {
    if (step->mask_effect() == MaskEffect::covered)
      diagnostics.error(
          step->origin,
          "has no meaning for masks, which would no longer fit their images; remove it, or data.masks");
  }
}

void check_corruption(const TransformList& list, const Shape& shape, Diagnostics& diagnostics) {
  for (const auto& step : list) {
    if (step->mask_effect() == MaskEffect::moved || step->is_terminal() || step->pixel_window() != nullptr) {
      diagnostics.error(
          step->origin,
          "the target would no longer fit: a corruption leaves each pixel in its place, such as "
          "gaussian_noise, gaussian, random_erasing or cutout; move it to data.augment");
      continue;
    }
    step->output_shape(shape, diagnostics);
  }
}

const PixelWindow* pixel_window(const TransformList& list) {
  return list.empty() ? nullptr : list.front()->pixel_window();
}

PixelMap pixel_map(const TransformList& list, int64_t channels) {
  if (!list.empty() && list.back()->is_terminal()) return list.back()->pixel_map(channels);
  const auto count = static_cast<size_t>(channels);
  return {std::vector<float>(count, 1.0f / 255), std::vector<float>(count, 0.0f)};
}

TransformChain::TransformChain(const TransformList& list, const Shape& input, Diagnostics& diagnostics)
    : TransformChain(list, input, input[0], diagnostics) {}

TransformChain::TransformChain(const TransformList& list, const Shape& input, int64_t channels,
                               Diagnostics& diagnostics)
    : window_(pixel_window(list)), channels_(input[0]), input_(input), output_(input) {
  if (can_convert_channels(input[0], channels)) channels_ = output_[0] = channels;
  if (is_fixed(input)) most_bytes_ = std::max(numel(input), numel(output_));
  for (const auto& step : list) {
    const bool is_window = window_ != nullptr && step == list.front();
    if (!is_fixed(output_) && !is_window && dynamic_cast<const ViewTransform*>(step.get()) == nullptr) {
      diagnostics.error(step->origin,
                        "needs images of one size, but their sizes differ; put random_resized_crop before "
                        "it, or resize and center_crop");
      return;
    }
    if (is_fixed(output_)) most_bytes_ = std::max(most_bytes_, step->most_bytes(output_));
    output_ = step->output_shape(output_, diagnostics);
    if (is_fixed(output_)) most_bytes_ = std::max(most_bytes_, numel(output_));
    if (!step->is_terminal() && !is_window) add(step.get());
  }
  if (input[0] > channels_) most_bytes_ *= input[0];  // the first steps see the sample's own channels
  if (diagnostics.ok()) map_ = pixel_map(list, output_[0]);
}

Image TransformChain::make_image() const {
  Image image;
  image.pixels.reserve(static_cast<size_t>(most_bytes_));
  image.spare.reserve(static_cast<size_t>(most_bytes_));
  return image;
}

void TransformChain::add(const Transform* step) {
  const auto* view = dynamic_cast<const ViewTransform*>(step);
  if (view != nullptr && steps_.empty() && (head_.empty() || view->only_cuts())) {
    head_.push_back(view);
  } else {
    steps_.push_back(step);
  }
}

void TransformChain::read(const ImageSource& source, int64_t index, const RandomStream& random,
                          Image& into) const {
  HeadView chooser(window_, head_, random);
  if (head_.empty() && window_ == nullptr) {
    source.read(index, into);
  } else {
    source.read_view(index, chooser, into);
  }
  if (channels_ != input_[0]) convert_channels(into, channels_);
  for (const Transform* step : steps_) step->apply(into, chooser.random());
  if (!into.mask.empty() && static_cast<int64_t>(into.mask.size()) != into.height * into.width)
    throw std::logic_error("a transform has left the mask at another size than its image");
}

View TransformChain::shown(int64_t height, int64_t width) const {
  RandomStream unused(0);
  View view = View::whole(height, width);
  const auto add = [&](const Transform* step) {
    const auto* next = dynamic_cast<const ViewTransform*>(step);
    if (next != nullptr) view = within(view, next->view(view.y.out, view.x.out, unused));
  };
  for (const ViewTransform* step : head_) add(step);
  for (const Transform* step : steps_) add(step);
  return view;
}

void TransformChain::check_shape(const Image& image) const {
  if (image.channels != output_[0] || image.height != output_[1] || image.width != output_[2]) {
    throw Error(ExitCode::data, fmt::format("a sample has shape {}x{}x{} after its transforms, expected {}",
                                            image.channels, image.height, image.width, to_string(output_)));
  }
}

void TransformChain::write(const Image& image, float* row) const {
  check_shape(image);
  const int64_t plane = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c) {
    const auto channel = static_cast<size_t>(c);
    scale_bytes(image.pixels.data() + c * plane, map_.scale[channel], map_.offset[channel], plane,
                row + c * plane);
  }
}

void TransformChain::write(const Image& image, uint8_t* row) const {
  check_shape(image);
  std::copy(image.pixels.begin(), image.pixels.end(), row);
}

void TransformChain::mix_into(const Image& image, const Mixing& mixing, float* row) const {
  check_shape(image);
  const float kept = mixing.kept, added = 1 - mixing.kept;
  for (int64_t c = 0; c < image.channels; ++c) {
    const float scale = map_.scale[static_cast<size_t>(c)], offset = map_.offset[static_cast<size_t>(c)];
    for (int64_t y = mixing.top; y < mixing.top + mixing.height; ++y) {
      const int64_t first = (c * image.height + y) * image.width + mixing.left;
      const uint8_t* __restrict src = image.pixels.data() + first;
      float* __restrict dst = row + first;
      for (int64_t x = 0; x < mixing.width; ++x)
        dst[x] = kept * dst[x] + added * (scale * static_cast<float>(src[x]) + offset);
    }
  }
}

void TransformChain::mix_into(const Image& image, const Mixing& mixing, uint8_t* row) const {
  check_shape(image);
  if (mixing.kept != 0) throw std::logic_error("bytes are not blended");
  for (int64_t line = 0; line < image.channels * image.height; ++line) {
    const int64_t y = line % image.height - mixing.top;
    if (y < 0 || y >= mixing.height) continue;
    const int64_t first = line * image.width + mixing.left;
    std::copy_n(image.pixels.data() + first, mixing.width, row + first);
  }
}

}  // namespace trainer
