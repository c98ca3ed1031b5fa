// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>
#include <type_traits>

#include "core/data/images/decode.h"

namespace trainer {

/// One image while it is decoded; its bytes must outlive this. Errors throw DecodeError.
class ImageDecoder {
 public:
  ImageDecoder() = default;
  virtual ~ImageDecoder() = default;
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  virtual ImageHeader read_header() = 0;
  /// After read_header(): decode() shall turn stored values into bytes so. False if it has them as bytes
  /// only.
  virtual bool take_window(const PixelWindow&) { return false; }
  /// After read_header(): makes the view (in pixels as stored) as planar RGB.
  virtual void decode(View view, Image& into) = 0;
};

/// decode_image with a decoder of its format.
void decode_image(ImageDecoder& decoder, const ViewChooser& chooser, int64_t max_pixels, Image& into);

/// Runs a step of a C library whose functions leave by longjmp to `jump`; then fail() throws. longjmp skips
/// this one call only: the step captures references and creates no objects.
template <class Step, class Fail>
void run_guarded(std::jmp_buf& jump, const Step& step, const Fail& fail) {
  static_assert(std::is_trivially_destructible_v<Step> && std::is_trivially_destructible_v<Fail>);
  if (setjmp(jump) != 0) fail();
  step();
}

}  // namespace trainer
