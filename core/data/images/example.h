// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainer {

/// An image file and a label in a message tf.train.Example.
struct ImageExample {
  std::string_view image;  ///< a part of the message
  std::optional<int64_t> label;
};

/// Reads two features by their names. Throws std::invalid_argument with what was expected and found: for a
/// damaged message, a missing image, or a feature of another type. A label may be missing.
ImageExample parse_example(std::string_view message, const std::string& image_feature,
                           const std::string& label_feature);

}  // namespace trainer
