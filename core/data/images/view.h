// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/images/pixel_window.h"

namespace trainer {

/// A window along one axis: `length` pixels from `begin` on, resized to `out`. The filter reads no pixel
/// outside [low, high); a window of whole pixels with out == length is copied exactly.
struct AxisView {
  double begin = 0, length = 0;
  int64_t low = 0, high = 0;
  int64_t out = 0;

  static AxisView whole(int64_t size) { return {0, static_cast<double>(size), 0, size, size}; }
  double scale() const { return length / static_cast<double>(out); }  ///< source pixels per pixel made
  /// The same window seen from the other end of an axis of `size` pixels.
  AxisView mirrored(int64_t size) const;
  /// The same window after `by` pixels before it were left out.
  AxisView shifted(int64_t by) const;
  /// The same window in an image made `eighths` / 8 as large.
  AxisView scaled(int64_t eighths) const;
};

/// The wanted part of an image, and its size in the result.
struct View {
  AxisView y, x;

  static View whole(int64_t height, int64_t width) {
    return {AxisView::whole(height), AxisView::whole(width)};
  }
};

/// `inner`, a window without scaling, applied to the result of `outer`: both in one.
View narrowed(const View& outer, const View& inner);

/// `inner`, any view, of the result of `outer`: both in one, by places alone.
View within(const View& outer, const View& inner);

/// Called once an image's size is known, so that only the wanted part is decoded. If the image turns
/// out to be unreadable, it is called again for the replacement: the answer depends on the size alone.
class ViewChooser {
 public:
  virtual ~ViewChooser() = default;
  virtual View choose(int64_t height, int64_t width) const = 0;
  /// How stored values become bytes, before the view is made; null: in the ordinary way. Has no default, so
  /// that a chooser that passes on another one's answers does not forget it.
  virtual const PixelWindow* pixel_window() const = 0;
};

/// The whole image as it is, perhaps seen through a window, which must outlive it.
class WholeView final : public ViewChooser {
 public:
  explicit WholeView(const PixelWindow* window = nullptr) : window_(window) {}
  View choose(int64_t height, int64_t width) const override { return View::whole(height, width); }
  const PixelWindow* pixel_window() const override { return window_; }

 private:
  const PixelWindow* window_;
};

}  // namespace trainer
