// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/data/images/decode.h"
#include "tests/data/images/images.h"

namespace trainer {

/// A fixed view.
class FixedView final : public ViewChooser {
 public:
  explicit FixedView(const View& view) : view_(view) {}
  View choose(int64_t, int64_t) const override { return view_; }
  const PixelWindow* pixel_window() const override { return nullptr; }

 private:
  View view_;
};
View cut(int64_t top, int64_t left, int64_t height, int64_t width);

/// A file of tests/fixtures/images.
const std::string kStoredImages = TRAINER_SOURCE_DIR "/tests/fixtures/images/";
std::string stored_image(const std::string& name);
/// The file with other bytes from `at` on.
std::string with_number(std::string file, size_t at, const std::vector<uint8_t>& bytes);

Image decoded(const std::string& file, const ViewChooser& chooser = WholeView(),
              int64_t max_pixels = kMaxPixels);
/// The text of DecodeError, or a failed check.
std::string decode_error(const std::string& file, const ViewChooser& chooser = WholeView(),
                         int64_t max_pixels = kMaxPixels);
/// The greatest difference of two images of one size.
int greatest_difference(const Image& a, const Image& b);

}  // namespace trainer
