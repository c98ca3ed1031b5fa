// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/images/source.h"
#include "core/data/images/transform.h"

namespace trainer {

struct DataSection;

/// What packing does to images: transforms, none of them random, then a file of each result.
struct Packing {
  TransformList transforms;  ///< the first may be a view, the others keep an image's size
  bool is_lossless = false;  ///< PNG files; otherwise JPEG
  int64_t quality = 90;      ///< of JPEG
};

/// The list `[resize: 256, median]`, as a recipe has it. Throws Error (exit 64) for anything that is unknown
/// or random, and for a view after the first step.
TransformList packing_transforms(const std::string& list);

/// The samples of a source, changed. It must outlive the result, which is a source of encoded images.
std::unique_ptr<ImageSource> pack_images(const ImageSource& source, Packing packing);

/// A transform with all its parameters: "resize: {size: 256}".
std::string text_of(Transform& transform);
std::vector<std::string> texts_of(const TransformList& list);

/// The warning for a recipe that applies a filter once more that packed images have had, with whatever
/// parameters; empty if it does not. A view of the size that an image has leaves it as it is.
std::string repeated_transforms(const std::vector<std::string>& packed, const DataSection& section,
                                Split split);

/// Calls take(image) for the samples [begin, end) in order, with its file in `encoded` or otherwise its
/// pixels, and its label. The file of an unreadable one is empty. Threads read ahead.
void read_for_packing(const ImageSource& source, int64_t begin, int64_t end, int64_t threads,
                      const std::function<void(const Image& image)>& take);

}  // namespace trainer
