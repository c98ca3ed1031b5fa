// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/winograd/kernels.h"

namespace trainer::cpu::winograd {

/// A cross-correlation with 3x3 weights at stride 1: x (images, inputs, height, width) -> y (images, outputs,
/// y_height, y_width). Both are in blocks of channels, (image, block, row, column, lane); weights in
/// (output block, input block, 3, 3, input lane, output lane). Lanes without a channel hold zero. x, y, their
/// gradients, w and bias are stored as the kernels say, dw and db in f32.
struct Geometry {
  int64_t images, inputs, outputs;
  int64_t height, width;      ///< of x
  int64_t y_height, y_width;  ///< height + 2 * top - 2, width + 2 * left - 2
  int64_t top, left;          ///< padding, 0 to 2
  int64_t groups = 1;         ///< x and y are channels of tensors with this many times as many

  /// The geometry that computes the gradient of x from that of y.
  Geometry reversed() const;

  int64_t tile_rows() const { return (y_height + kTile - 1) / kTile; }
  int64_t tile_columns() const { return (y_width + kTile - 1) / kTile; }
  int64_t tiles() const { return images * tile_rows() * tile_columns(); }
  Grid grid_of_x(int64_t lanes) const;
  Grid grid_of_y(int64_t lanes) const;
};

/// Blocks of `size` that `count` takes.
inline int64_t blocks_of(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

/// F(4x4, 3x3): y = x * w + bias, added to what y holds if requested, clamped at zero if requested. With a
/// reversed geometry: dx = dy * w, with the same w as forward. An element's sum has one order, however the
/// work is divided.
class Forward {
 public:
  struct Call {
    const void *x, *w;
    const void* bias;  ///< one for each output, or null
    bool relu;
    void* y;
    float* workspace;          ///< aligned to 64 bytes
    bool adds = false;         ///< to what y holds
    const float* u = nullptr;  ///< what prepare_weights made of w, which is not read then
  };

  virtual ~Forward() = default;
  virtual int64_t workspace_floats(bool prepared = false) const = 0;  ///< prepared: every call has u
  virtual void run(const Call& call) const = 0;
};

/// The transformed weights of a geometry's forward convolution: their size, aligned to 64 bytes, and how to
/// make them. They depend on the numbers of channels only.
int64_t prepared_floats(const Kernels& kernels, const Geometry& geometry);
void prepare_weights(const Kernels& kernels, const Geometry& geometry, const void* w, float* u);

/// `geometry` is the reversed one if `reversed`.
std::unique_ptr<Forward> make_forward(const Kernels& kernels, const Geometry& geometry, bool reversed,
                                      int threads);

/// F(3x3, 4x4): dw, and the gradient of the bias. The order of an element's sum depends on the number of
/// threads.
class BackwardWeights {
 public:
  struct Call {
    const void *x, *dy;
    float* dw;
    float* db;         ///< one for each output, or null
    float* workspace;  ///< aligned to 64 bytes
  };

  virtual ~BackwardWeights() = default;
  virtual int64_t workspace_floats() const = 0;
  virtual void run(const Call& call) const = 0;
};

std::unique_ptr<BackwardWeights> make_backward_weights(const Kernels& kernels, const Geometry& geometry,
                                                       int threads);

}  // namespace trainer::cpu::winograd
