// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/data/images/image.h"
#include "core/data/images/view.h"
#include "core/data/source.h"

namespace trainer {

/// Images by number, of shape (C, H, W), each with a label.
class ImageSource : public DataSource {
 public:
  virtual void read(int64_t index, Image& into) const = 0;
  /// See RowReader.
  virtual void expect(int64_t /*first*/, int64_t /*count*/) const {}
  /// The view of the sample that `chooser` selects, after its window. Encoded images decode no more than
  /// that.
  virtual void read_view(int64_t index, const ViewChooser& chooser, Image& into) const;
  /// Whether samples are image files. If so, read_encoded() returns the undecoded bytes in `encoded`, and the
  /// label, which is set even if it throws UnreadableSampleError.
  virtual bool is_encoded() const { return false; }
  virtual void read_encoded(int64_t index, Image& into) const;
  /// Only for formats that give label maps: the class of each pixel, (H, W), of an image that read() gave
  /// and transforms may have changed.
  virtual void map_labels(const Image& image, int32_t* map) const;
  /// The value of pixels without a class, if each image has a mask in a file of its own.
  virtual std::optional<uint8_t> ignored_pixel() const { return std::nullopt; }
  bool has_masks() const { return ignored_pixel().has_value(); }
  /// The undecoded bytes of a mask, as read_encoded().
  virtual void read_encoded_mask(int64_t index, Image& into) const;
  /// Whether an image has any number of labels. label_set() then returns those of an image from read(),
  /// ascending; its own `label` only identifies the set.
  virtual bool has_label_sets() const { return false; }
  virtual std::span<const int32_t> label_set(const Image& image) const;

  /// The path of a sample's own file below the folder of all; empty if it has none.
  virtual std::string sample_name(int64_t /*index*/) const { return ""; }
  /// How a file of data.exclude names a sample: by that path or, without one, by its number, before
  /// data.val_fraction.
  virtual std::string exclude_name(int64_t index) const;
  /// A sample's label, if it is known without reading the sample.
  virtual std::optional<int32_t> label_of(int64_t /*index*/) const { return std::nullopt; }
  /// A sample's group, if data.split_by gives one.
  virtual std::optional<int32_t> group_of(int64_t /*index*/) const { return std::nullopt; }
  Fingerprint fingerprint() const override;

  std::unique_ptr<RowReader> rows(const RowRequest& request) const final;
};

/// The label of each image; empty if images have sets of them, or labels cannot be known without reading.
std::vector<int32_t> labels_of(const ImageSource& source);
/// The classes of each image; empty if images have one each, or labels cannot be known without reading.
SampleLabelSets label_sets_of(const ImageSource& source);
/// The group of each image; empty if there are none.
std::vector<int32_t> groups_of(const ImageSource& source);

/// The source as one of images. Throws Error (exit 78) if its samples are not images.
const ImageSource& as_images(const DataSource& source);

}  // namespace trainer
