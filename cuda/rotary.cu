// SPDX-License-Identifier: Apache-2.0
#include "cuda/rotary.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

/// A thread's work on a token: turn pieces of its heads, then copy the unchanged pieces: the rest of each
/// head, and all heads after those.
struct RotaryPieces {
  int64_t width;
  int heads, size, features;
  bool interleaved, inverse;
  int turned;  ///< pieces of a head that are turned
  int kept;    ///< pieces of a head that are not
  int behind;  ///< pieces of the heads after
  __host__ __device__ int of_token() const { return heads * (turned + kept) + behind; }
};

constexpr int pieces_of(int64_t elements) {
  return static_cast<int>((elements + Octet::kSize - 1) / Octet::kSize);
}

/// Eight pairs (i, i + features / 2); the last piece has fewer.
template <class T>
__device__ inline void turn_halves(const RotaryPieces& p, int i, const T* x, const float* row, T* y) {
  const int half = p.features / 2, left = half - i;
  const Octet a = load(x + i, left), b = load(x + half + i, left), cosine = load(row + i, left);
  Octet sine = load(row + half + i, left), to_a, to_b;
#pragma unroll
  for (int k = 0; k < Octet::kSize; ++k) {
    if (p.inverse) sine.v[k] = -sine.v[k];
    to_a.v[k] = a.v[k] * cosine.v[k] - b.v[k] * sine.v[k];
    to_b.v[k] = b.v[k] * cosine.v[k] + a.v[k] * sine.v[k];
  }
  store(to_a, left, y + i);
  store(to_b, left, y + half + i);
}

/// Four pairs (i, i + 1); the last piece has fewer.
template <class T>
__device__ inline void turn_neighbours(const RotaryPieces& p, int i, const T* x, const float* row, T* y) {
  const int half = p.features / 2, left = p.features - i;
  const Octet pairs = load(x + i, left);
  Octet turned;
#pragma unroll
  for (int k = 0; k < Octet::kSize; k += 2) {
    const bool exists = k < left;
    const float cosine = exists ? row[(i + k) / 2] : 0, forward = exists ? row[half + (i + k) / 2] : 0;
    const float sine = p.inverse ? -forward : forward;
    turned.v[k] = pairs.v[k] * cosine - pairs.v[k + 1] * sine;
    turned.v[k + 1] = pairs.v[k + 1] * cosine + pairs.v[k] * sine;
  }
  store(turned, left, y + i);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    turn_heads(RotaryPieces p, TableRows row_of, int64_t count, const T* x, const float* table, T* y) {
  wait_for_previous_kernels();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t token = i / p.of_token();
    int piece = static_cast<int>(i % p.of_token());
    const int of_heads = p.heads * (p.turned + p.kept);
    int64_t begin = token * p.width, left = p.width - p.heads * p.size;
    if (piece >= of_heads) {
      begin += p.heads * p.size, piece -= of_heads;
    } else {
      const int head = piece / (p.turned + p.kept);
      begin += head * p.size, piece %= p.turned + p.kept;
      if (piece < p.turned) {
        const float* row = table + row_of(token) * p.features;
        if (p.interleaved) {
          turn_neighbours(p, piece * Octet::kSize, x + begin, row, y + begin);
        } else {
          turn_halves(p, piece * Octet::kSize, x + begin, row, y + begin);
        }
        continue;
      }
      begin += p.features, left = p.size - p.features, piece -= p.turned;
    }
    const int64_t first = piece * Octet::kSize;
    store(load(x + begin + first, left - first), left - first, y + begin + first);
  }
}

}  // namespace

cudaError_t launch_rotary(const RotarySettings& settings, const RotaryTokens& tokens, DType dtype,
                          const void* x, const float* table, void* y, cudaStream_t stream) {
  const bool copies = x != y;
  const RotaryPieces pieces{
      .width = tokens.width,
      .heads = static_cast<int>(settings.heads),
      .size = static_cast<int>(settings.size),
      .features = static_cast<int>(settings.features),
      .interleaved = settings.interleaved,
      .inverse = settings.inverse,
      .turned = pieces_of(settings.interleaved ? settings.features : settings.features / 2),
      .kept = copies ? pieces_of(settings.size - settings.features) : 0,
      .behind = copies ? pieces_of(tokens.width - settings.heads * settings.size) : 0};
  const int64_t count = tokens.tokens * pieces.of_token();
  return with_storage(dtype, [&](auto element) {
    using T = decltype(element);
    return launch(turn_heads<T>, blocks_for(count * Octet::kSize), dim3(kThreads), stream, pieces,
                  tokens.row_of, count, static_cast<const T*>(x), table, static_cast<T*>(y));
  });
}

}  // namespace trainer::cuda
