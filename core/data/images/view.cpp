// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/view.h"

namespace trainer {

AxisView AxisView::mirrored(int64_t size) const {
  return {static_cast<double>(size) - begin - length, length, size - high, size - low, out};
}

AxisView AxisView::shifted(int64_t by) const {
  return {begin - static_cast<double>(by), length, low - by, high - by, out};
}

AxisView AxisView::scaled(int64_t eighths) const {
  if (eighths == 8) return *this;
  const double factor = static_cast<double>(eighths) / 8;
  return {begin * factor, length * factor, low * eighths / 8, (high * eighths + 7) / 8, out};
}

namespace {

AxisView narrowed_axis(const AxisView& outer, const AxisView& inner) {
  const double scale = outer.scale();
  return {outer.begin + inner.begin * scale, static_cast<double>(inner.out) * scale, outer.low, outer.high,
          inner.out};
}

AxisView axis_within(const AxisView& outer, const AxisView& inner) {
  const double scale = outer.scale();
  return {outer.begin + inner.begin * scale, inner.length * scale, outer.low, outer.high, inner.out};
}

}  // namespace

View within(const View& outer, const View& inner) {
  return {axis_within(outer.y, inner.y), axis_within(outer.x, inner.x)};
}

View narrowed(const View& outer, const View& inner) {
  return {narrowed_axis(outer.y, inner.y), narrowed_axis(outer.x, inner.x)};
}

}  // namespace trainer
