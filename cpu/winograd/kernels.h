// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer::cpu::winograd {

/// Winograd's minimal filtering in two dimensions. A tile of 4x4 results (or of 4x4 gradients) and 3x3
/// weights meet in 6x6 pixels. Each of these 36 positions is a product of matrices.
constexpr int64_t kTile = 4, kTaps = 3, kWindow = 6, kPositions = kWindow * kWindow;

/// Floats between arrays that would otherwise be a power of two apart and evict each other's cache lines.
constexpr int64_t kPad = 16;

/// The layout of tiles in the images of one block of channels: (height, width, lanes) each, the next image's
/// at `stride` floats. Tiles are counted along rows, then columns, then images.
struct Grid {
  int64_t rows, columns;  ///< tiles of an image
  int64_t height, width;  ///< pixels of an image
  int64_t top, left;      ///< how far the first tile's window begins outside of the image
  int64_t stride;
};

/// Tiles from `begin` on.
struct Tiles {
  int64_t begin, count;
};

/// One block of channels of the products, stored as [position][row][lane].
struct Positions {
  float* data;
  int64_t stride;  ///< floats between positions
};

/// What becomes of a result before it is stored, in this order.
struct After {
  const float* bias;  ///< lanes of them, or null
  bool adds;          ///< to what y holds
  bool relu;          ///< clamped at zero
};

/// The type in which pixels and weights are stored. Everything between two transforms is float, and so are
/// the gradients of weights.
enum class Storage { f32, bf16 };

/// The loops, compiled for one instruction set and one storage. Channels come in blocks of `lanes`, which are
/// the lanes of all vectors; channels that do not exist are zero. Pointers to vectors are aligned to 4 bytes
/// only.
struct Kernels {
  const char* name;
  int64_t lanes;
  int64_t strip;  ///< tiles with sums that fit into the registers at once
  Storage storage;

  /// A block of channels of x -> v[position][tile][lane].
  void (*transform_x)(const Grid& grid, const void* x, Tiles tiles, Positions v);
  /// A block of channels of dy -> the same. Adds the sums of the lanes to `sums` unless it is null.
  void (*transform_dy)(const Grid& grid, const void* dy, Tiles tiles, Positions v, float* sums);
  /// A block of weights, (3, 3, lanes of inputs, lanes of outputs) -> u[position][input][output], the inputs
  /// at `row` floats. `reversed` is for the data's gradient: inputs and outputs are exchanged, taps are
  /// rotated.
  void (*transform_w)(const void* w, bool reversed, Positions u, int64_t row);
  /// m[vector][tile][lane] = (or, if `add`, +=) v[block][tile][lane] * u[block][lane][vector][lane], summed
  /// over the blocks, for one position and one or two vectors of outputs. Blocks of v and vectors of m are at
  /// strides.
  void (*multiply)(const float* v, int64_t v_stride, int64_t tiles, int64_t blocks, const float* u,
                   int64_t vectors, bool add, float* m, int64_t m_stride);
  /// m[position][tile][lane] -> a block of channels of y.
  void (*transform_y)(const Grid& grid, Positions m, Tiles tiles, const After& after, void* y);
  /// m[input][vector][lane] = (or, if `add`, +=) v[tile][input] * g[vector][tile][lane], summed over the
  /// tiles, for one position, a block of inputs and one to three vectors of outputs. Vectors of g and rows of
  /// m are at strides.
  void (*accumulate)(const float* v, const float* g, int64_t g_stride, int64_t tiles, int64_t vectors,
                     bool add, float* m, int64_t m_row);
  /// Sums of m[part][position][input][lane] over the parts -> a block of dw, (3, 3, lanes, lanes). Positions
  /// are at `position`, inputs at `row`, parts at `part_stride` floats.
  void (*transform_dw)(const float* m, int64_t position, int64_t row, int64_t parts, int64_t part_stride,
                       float* dw);
};

/// Null if the compiler does not support these instructions; the caller checks whether the processor has
/// them.
const Kernels* avx512_kernels(Storage storage);
const Kernels* avx2_kernels(Storage storage);
/// For every processor.
const Kernels& plain_kernels(Storage storage);

}  // namespace trainer::cpu::winograd
