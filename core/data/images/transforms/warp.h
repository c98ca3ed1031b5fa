// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/images/image.h"

namespace trainer {

/// Where a pixel comes from, in pixels about the image's centre: x' = xx x + xy y + x0, y' = yx x + yy y +
/// y0.
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

/// A rotation by this many degrees, counter-clockwise for the viewer.
Affine rotation_by(double degrees);

enum class Sampling { nearest, bilinear };

/// Warps the image at its own size, and its mask with nearest sampling; pixels from outside are 0, those of
/// the mask mask_padding.
void warp(Image& image, const Affine& from, Sampling sampling);

}  // namespace trainer
