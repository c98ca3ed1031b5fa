// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/base/rng.h"
#include "core/base/sample_steps.h"
#include "core/base/shape.h"
#include "core/config/fields.h"
#include "core/data/images/mix.h"
#include "core/data/images/source.h"

namespace trainer {

/// The mapping of each channel's bytes to numbers: scale * byte + offset.
struct PixelMap {
  std::vector<float> scale, offset;  ///< one per channel
};

/// What becomes of a sample's mask in a transform.
enum class MaskEffect {
  moved,    ///< each pixel goes where the image's goes
  kept,     ///< all pixels stay where they are, and change their colours only
  covered,  ///< parts of the image are replaced, so that the transform cannot be used with masks
};

/// A step between a stored sample and a row of the batch. Holds no state; called from several threads at
/// once.
class Transform : public Component {
 public:
  /// Draws its random numbers only from `random`.
  virtual void apply(Image& image, RandomStream& random) const = 0;
  virtual bool is_random() const { return false; }
  /// Has no default, so that none is forgotten. If it is `moved`, apply() moves the mask too.
  virtual MaskEffect mask_effect() const = 0;

  /// The shape it turns (C, H, W) into; reports parameters that do not fit. Only views are called with shapes
  /// that are not fixed.
  virtual Shape output_shape(const Shape& input, Diagnostics&) const { return input; }
  /// Bytes of its largest intermediate image.
  virtual int64_t most_bytes(const Shape& input) const { return numel(input); }

  /// The same step for a device that takes (C, H, W), drawn from the same words; nothing if none can.
  virtual std::optional<SampleStep> device_step(const Shape& /*input*/) const { return std::nullopt; }

  /// Not null if it turns stored values into bytes: it is then the first of its list, and the source does
  /// that.
  virtual const PixelWindow* pixel_window() const { return nullptr; }

  /// True if it turns bytes into numbers: it is then the last of its list and gives the map for that.
  virtual bool is_terminal() const { return false; }
  virtual PixelMap pixel_map(int64_t /*channels*/) const { return {}; }
};

/// A step that cuts out a window and scales it. At the head of a list it determines the part that the source
/// decodes.
class ViewTransform : public Transform {
 public:
  virtual View view(int64_t height, int64_t width, RandomStream& random) const = 0;
  /// True if it never scales: it can then be one with the view before it.
  virtual bool only_cuts() const { return false; }
  MaskEffect mask_effect() const final { return MaskEffect::moved; }
  void apply(Image& image, RandomStream& random) const final;
};

using TransformList = std::vector<std::unique_ptr<Transform>>;

/// Reports the transforms of a list that masks cannot follow.
void check_masks_follow(const TransformList& list, Diagnostics& diagnostics);

/// Reports the transforms of a list that cannot corrupt an image of this shape in its place.
void check_corruption(const TransformList& list, const Shape& shape, Diagnostics& diagnostics);

/// The window that a list begins with; null if it begins with another step.
const PixelWindow* pixel_window(const TransformList& list);

/// How a list maps bytes to numbers: as its last transform says, otherwise to the unit range.
PixelMap pixel_map(const TransformList& list, int64_t channels);

/// A checked list made ready for one shape of samples. The list must outlive it. Its steps see images of
/// `channels`: samples of another number are converted first.
class TransformChain {
 public:
  /// Reports steps that do not fit `input` (C, H, W); the chain is then not to be used.
  TransformChain(const TransformList& list, const Shape& input, Diagnostics& diagnostics);
  TransformChain(const TransformList& list, const Shape& input, int64_t channels, Diagnostics& diagnostics);

  const Shape& output_shape() const { return output_; }
  /// An image with room for every step, so that no later one allocates.
  Image make_image() const;

  /// The sample after all steps. Its random numbers come from a copy of `random`, so that a source may ask
  /// for a view more than once.
  void read(const ImageSource& source, int64_t index, const RandomStream& random, Image& into) const;
  /// The part of a sample that its row shows, if no transform is random.
  View shown(int64_t height, int64_t width) const;
  /// Bytes to numbers: `row` has numel(output_shape()) floats. Throws Error (exit 65) for any other image.
  void write(const Image& image, float* row) const;
  /// The same as bytes, unchanged.
  void write(const Image& image, uint8_t* row) const;
  /// Puts the image into the mixing window of a row that already holds another. As bytes this is possible
  /// only if nothing of the other image is kept in the window.
  void mix_into(const Image& image, const Mixing& mixing, float* row) const;
  void mix_into(const Image& image, const Mixing& mixing, uint8_t* row) const;

 private:
  void add(const Transform* step);
  void check_shape(const Image& image) const;

  const PixelWindow* window_ = nullptr;     // of the stored values, before all else
  std::vector<const ViewTransform*> head_;  // one view and the cuts after it: a single view of the sample
  std::vector<const Transform*> steps_;     // the rest
  PixelMap map_;
  int64_t channels_;  // that the first step sees
  Shape input_, output_;
  int64_t most_bytes_ = 0;
};

}  // namespace trainer
