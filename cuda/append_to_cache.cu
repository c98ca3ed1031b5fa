// SPDX-License-Identifier: Apache-2.0
#include "cuda/append_to_cache.h"

#include "cuda/grid.h"

namespace trainer::cuda {
namespace {

/// The dimensions in words, `row` of them in a row.
struct WordRows {
  int64_t samples, cached, rows, row;
};

template <class Word>
__global__ void __launch_bounds__(kThreads)
    append_words(WordRows e, const int32_t* place, const Word* rows, Word* cache) {
  wait_for_previous_kernels();
  const int64_t count = e.samples * e.rows * e.row, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = *place;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t column = i % e.row, sample = i / e.row / e.rows, at = first + i / e.row % e.rows;
    if (at < e.cached) cache[(sample * e.cached + at) * e.row + column] = rows[i];
  }
}

template <class Word>
cudaError_t append_as(const AppendSizes& e, const int32_t* place, const void* rows, void* cache,
                      cudaStream_t stream) {
  const WordRows words{e.samples, e.cached, e.rows, e.row_bytes / static_cast<int64_t>(sizeof(Word))};
  return launch(append_words<Word>, blocks_for(words.samples * words.rows * words.row), dim3(kThreads),
                stream, words, place, static_cast<const Word*>(rows), static_cast<Word*>(cache));
}

}  // namespace

/// Tensors begin at multiples of 64 bytes, so only the length of a row limits the width of a word.
cudaError_t launch_append_to_cache(const AppendSizes& e, const int32_t* place, const void* rows, void* cache,
                                   cudaStream_t stream) {
  if (e.row_bytes % 16 == 0) return append_as<uint4>(e, place, rows, cache, stream);
  if (e.row_bytes % 4 == 0) return append_as<uint32_t>(e, place, rows, cache, stream);
  return append_as<uint16_t>(e, place, rows, cache, stream);
}

}  // namespace trainer::cuda
