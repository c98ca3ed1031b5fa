// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/source.h"

#include "core/base/error.h"
#include "core/data/images/resample.h"

namespace trainer {

void ImageSource::read_view(int64_t index, const ViewChooser& chooser, Image& into) const {
  read(index, into);
  if (const PixelWindow* window = chooser.pixel_window()) window->apply(into);
  resample(into, chooser.choose(into.height, into.width));
}

void ImageSource::read_encoded(int64_t, Image&) const {
  throw std::logic_error("this source has no encoded samples");
}

void ImageSource::read_encoded_mask(int64_t, Image&) const {
  throw std::logic_error("this source has no masks");
}

void ImageSource::map_labels(const Image&, int32_t*) const {
  throw std::logic_error("this source has no label maps");
}

std::span<const int32_t> ImageSource::label_set(const Image&) const {
  throw std::logic_error("this source has one label for each image");
}

std::string ImageSource::exclude_name(int64_t index) const {
  std::string name = sample_name(index);
  return name.empty() ? std::to_string(index) : name;
}

std::vector<int32_t> labels_of(const ImageSource& source) {
  std::vector<int32_t> labels;
  if (source.has_label_sets() || !source.label_of(0)) return labels;
  labels.reserve(static_cast<size_t>(source.size()));
  for (int64_t i = 0; i < source.size(); ++i) labels.push_back(*source.label_of(i));
  return labels;
}

SampleLabelSets label_sets_of(const ImageSource& source) {
  SampleLabelSets sets;
  if (!source.has_label_sets() || !source.label_of(0)) return sets;
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    image.label = *source.label_of(i);
    sets.add(source.label_set(image));
  }
  return sets;
}

std::vector<int32_t> groups_of(const ImageSource& source) {
  std::vector<int32_t> groups;
  if (!source.group_of(0)) return groups;
  groups.reserve(static_cast<size_t>(source.size()));
  for (int64_t i = 0; i < source.size(); ++i) groups.push_back(*source.group_of(i));
  return groups;
}

const ImageSource& as_images(const DataSource& source) {
  const auto* images = dynamic_cast<const ImageSource*>(&source);
  if (images == nullptr) throw Error(ExitCode::recipe, "data.format: its samples are not images");
  return *images;
}

}  // namespace trainer
