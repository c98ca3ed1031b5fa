// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cpu/winograd/convolution.h"

namespace trainer::cpu::winograd {

// Ways to divide the work among `threads`, each of which is right for every shape.

/// For many tiles: all weights are transformed first; then each thread takes tiles, a few at a time, from the
/// pixels to the results.
std::unique_ptr<Forward> forward_by_tiles(const Kernels& kernels, const Geometry& geometry, bool reversed,
                                          int64_t threads);
/// For many weights: all tiles are transformed first; then each thread takes outputs, two vectors at a time,
/// from the weights to the results.
std::unique_ptr<Forward> forward_by_outputs(const Kernels& kernels, const Geometry& geometry, bool reversed,
                                            int64_t threads);

/// For few weights: each thread sums over its own tiles, and their sums are added at the end.
std::unique_ptr<BackwardWeights> backward_weights_by_tiles(const Kernels& kernels, const Geometry& geometry,
                                                           int64_t threads);
/// For many weights: the threads transform tiles together, then each takes blocks of dw.
std::unique_ptr<BackwardWeights> backward_weights_by_blocks(const Kernels& kernels, const Geometry& geometry,
                                                            int64_t threads);

/// Tiles whose products for the weights' gradient are summed at once; these sums are then added up.
constexpr int64_t kGradientTiles = 96;

/// The place of an element of a tensor.
inline const void* element(const Kernels& kernels, const void* tensor, int64_t number) {
  const int64_t bytes = kernels.storage == Storage::f32 ? sizeof(float) : sizeof(uint16_t);
  return static_cast<const char*>(tensor) + number * bytes;
}
inline void* element(const Kernels& kernels, void* tensor, int64_t number) {
  return const_cast<void*>(element(kernels, static_cast<const void*>(tensor), number));
}

/// Part `i` of `parts` nearly equal parts of a range.
inline Tiles part_of(Tiles tiles, int64_t i, int64_t parts) {
  const int64_t begin = tiles.count * i / parts, end = tiles.count * (i + 1) / parts;
  return {tiles.begin + begin, end - begin};
}

/// Workspace for some blocks of channels at all positions of some tiles.
struct TileRoom {
  int64_t position, block;  ///< floats from position to position, from block to block

  TileRoom(int64_t tiles, int64_t lanes) : position(tiles * lanes + kPad), block(position * kPositions) {}
  Positions of(float* data, int64_t number) const { return {data + number * block, position}; }
};

}  // namespace trainer::cpu::winograd
