// SPDX-License-Identifier: Apache-2.0
#include "cuda/movement.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/parameters.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

template <class From, class To>
__global__ void cast_elements(int64_t count, const From* x, To* y) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) {
    store(load(x + i, count - i), count - i, y + i);
  }
}

/// Eight elements of a row at once. Gaps between rows of y become zero.
template <class From, class To>
__global__ void move_rows(int64_t rows, int64_t columns, const From* x, int64_t x_step, To* y,
                          int64_t y_step) {
  wait_for_previous_kernels();
  const int64_t wide = (y_step + Octet::kSize - 1) / Octet::kSize * Octet::kSize;
  for (int64_t i = first_element(); i < rows * wide; i += all_elements()) {
    const int64_t row = i / wide, column = i % wide, width = row + 1 < rows ? y_step : columns;
    store(load(x + row * x_step + column, columns - column), width - column, y + row * y_step + column);
  }
}

template <class From, class To>
__global__ void __launch_bounds__(kThreads) cast_all(const Table<TensorPointers> __grid_constant__ table) {
  wait_for_previous_kernels();
  const Share share = share_of_block(table);
  const auto* x = static_cast<const From*>(table.of[share.item].x);
  auto* y = static_cast<To*>(table.of[share.item].y);
  for (int64_t i = share.begin + threadIdx.x * Octet::kSize; i < share.end; i += kThreads * Octet::kSize) {
    store(load(x + i, share.end - i), share.end - i, y + i);
  }
}

__global__ void __launch_bounds__(kThreads) clear_all(const Table<TensorPointers> __grid_constant__ table) {
  wait_for_previous_kernels();
  const Share share = share_of_block(table);
  auto* y = static_cast<float*>(table.of[share.item].y);
  for (int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) y[i] = 0;
}

constexpr int kTile = 32, kTileRows = 8;
/// Up to here one thread moves a whole short row; tiles would be mostly empty.
constexpr int64_t kShort = 8;

/// A tile is read along its rows and written along its columns; the padding keeps columns in different banks.
template <class From, class To>
__global__ void transpose_tiles(int64_t rows, int64_t columns, const From* x, To* y) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, tile, [kTile][kTile + 1]);
  const int64_t wide = (columns + kTile - 1) / kTile, high = (rows + kTile - 1) / kTile;
  const int64_t matrix = blockIdx.x / (wide * high) * rows * columns, place = blockIdx.x % (wide * high);
  const int64_t row = place / wide * kTile, column = place % wide * kTile;
  const int i = static_cast<int>(threadIdx.x);
  for (int j = static_cast<int>(threadIdx.y); j < kTile; j += kTileRows) {
    if (row + j < rows && column + i < columns)
      tile[j][i] = to_float(x[matrix + (row + j) * columns + column + i]);
  }
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.y); j < kTile; j += kTileRows) {
    if (column + j < columns && row + i < rows) put(tile[i][j], y[matrix + (column + j) * rows + row + i]);
  }
}

/// One of both dimensions, `few`, is small: element (i, j), j < few, of a matrix goes from i * from_i + j *
/// from_j.
struct ShortRows {
  int64_t many, few, from_i, from_j, to_i, to_j;
};

template <class From, class To>
__global__ void transpose_short(ShortRows s, int64_t count, const From* x, To* y) {
  wait_for_previous_kernels();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= count) return;
  const int64_t matrix = thread / s.many * s.many * s.few, i = thread % s.many;
  for (int64_t j = 0; j < s.few; ++j) {
    put(to_float(x[matrix + i * s.from_i + j * s.from_j]), y[matrix + i * s.to_i + j * s.to_j]);
  }
}

template <class From, class To>
cudaError_t transpose(const From* x, To* y, int64_t batch, int64_t rows, int64_t columns,
                      cudaStream_t stream) {
  if (std::min(rows, columns) <= kShort) {
    const ShortRows s = rows < columns ? ShortRows{columns, rows, 1, columns, rows, 1}
                                       : ShortRows{rows, columns, columns, 1, 1, rows};
    const int64_t count = batch * s.many;
    return launch(transpose_short<From, To>, dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)),
                  dim3(kThreads), stream, s, count, x, y);
  }
  const int64_t tiles = batch * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  return launch(transpose_tiles<From, To>, dim3(static_cast<unsigned>(tiles)), dim3(kTile, kTileRows), stream,
                rows, columns, x, y);
}

/// In the order of y.
template <class T>
__global__ void exchange(Exchange e, int64_t count, const T* x, T* y) {
  wait_for_previous_kernels();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t inner = i % e.inner, a = i / e.inner % e.a, of_b = i / e.inner / e.a;
    const int64_t middle = of_b % e.middle, b = of_b / e.middle % e.b, outer = of_b / e.middle / e.b;
    y[i] = x[(((outer * e.a + a) * e.middle + middle) * e.b + b) * e.inner + inner];
  }
}

template <class Word>
__global__ void copy_words(Pieces p, const Word* src, Word* dst) {
  wait_for_previous_kernels();
  const int64_t count = p.rows * p.length, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    dst[i / p.length * p.dst_step + i % p.length] = src[i / p.length * p.src_step + i % p.length];
  }
}

template <class Word>
__global__ void pad_words(Pieces p, int64_t before, const Word* src, Word* dst) {
  wait_for_previous_kernels();
  const int64_t count = p.rows * p.dst_step, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t j = i % p.dst_step - before;
    dst[i] = j >= 0 && j < p.length ? src[i / p.dst_step * p.src_step + j] : Word{};
  }
}

/// The widest word in which all of these are whole, by visit(word, its bytes).
template <class Visit>
cudaError_t with_word(int64_t sizes, const void* src, const void* dst, const Visit& visit) {
  const auto all =
      static_cast<uint64_t>(sizes) | reinterpret_cast<uintptr_t>(src) | reinterpret_cast<uintptr_t>(dst);
  if (all % 16 == 0) return visit(uint4{}, 16);
  if (all % 4 == 0) return visit(uint32_t{}, 4);
  if (all % 2 == 0) return visit(uint16_t{}, 2);
  return visit(uint8_t{}, 1);
}

Pieces in_words(const Pieces& p, int64_t bytes) {
  return {p.rows, p.length / bytes, p.src_step / bytes, p.dst_step / bytes};
}

/// with_storage that also allows u8.
template <class Visit>
auto with_source(DType dtype, const Visit& visit) {
  return dtype == DType::u8 ? visit(uint8_t{}) : with_storage(dtype, visit);
}

}  // namespace

cudaError_t launch_cast(DType from, DType to, const void* x, void* y, int64_t count, cudaStream_t stream) {
  return with_source(from, [=](auto source) {
    return with_storage(to, [=](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      return launch(cast_elements<From, To>, blocks_for(count), dim3(kThreads), stream, count,
                    static_cast<const From*>(x), static_cast<To*>(y));
    });
  });
}

cudaError_t launch_cast_all(DType from, DType to, std::span<const TensorPointers> tensors,
                            cudaStream_t stream) {
  return with_storage(from, [=](auto source) {
    return with_storage(to, [=](auto target) {
      return for_each_table(tensors, [=](const Table<TensorPointers>& table, dim3 blocks, size_t, int64_t) {
        return launch(cast_all<decltype(source), decltype(target)>, blocks, dim3(kThreads), stream, table);
      });
    });
  });
}

cudaError_t launch_clear_all(std::span<const TensorPointers> tensors, cudaStream_t stream) {
  return for_each_table(tensors, [=](const Table<TensorPointers>& table, dim3 blocks, size_t, int64_t) {
    return launch(clear_all, blocks, dim3(kThreads), stream, table);
  });
}

cudaError_t launch_move_rows(DType from, DType to, const void* x, int64_t x_step, void* y, int64_t y_step,
                             int64_t rows, int64_t columns, cudaStream_t stream) {
  const int64_t wide = (y_step + Octet::kSize - 1) / Octet::kSize * Octet::kSize;
  return with_storage(from, [&](auto read) {
    using From = decltype(read);
    return with_storage(to, [&](auto written) {
      using To = decltype(written);
      return launch(move_rows<From, To>, blocks_for(rows * wide), dim3(kThreads), stream, rows, columns,
                    static_cast<const From*>(x), x_step, static_cast<To*>(y), y_step);
    });
  });
}

cudaError_t launch_transpose(DType from, DType to, const void* x, void* y, int64_t batch, int64_t rows,
                             int64_t columns, cudaStream_t stream) {
  return with_source(from, [=](auto source) {
    return with_storage(to, [=](auto target) {
      return transpose(static_cast<const decltype(source)*>(x), static_cast<decltype(target)*>(y), batch,
                       rows, columns, stream);
    });
  });
}

cudaError_t launch_exchange(const Exchange& e, DType dtype, const void* x, void* y, cudaStream_t stream) {
  const int64_t count = e.outer * e.a * e.middle * e.b * e.inner;
  return with_storage(dtype, [=](auto element) {
    using T = decltype(element);
    return launch(exchange<T>, blocks_for(count), dim3(kThreads), stream, e, count, static_cast<const T*>(x),
                  static_cast<T*>(y));
  });
}

cudaError_t launch_copy(const Pieces& p, const void* src, void* dst, cudaStream_t stream) {
  return with_word(p.length | p.src_step | p.dst_step, src, dst, [=](auto word, int64_t bytes) {
    using Word = decltype(word);
    const Pieces words = in_words(p, bytes);
    return launch(copy_words<Word>, blocks_for(words.rows * words.length), dim3(kThreads), stream, words,
                  static_cast<const Word*>(src), static_cast<Word*>(dst));
  });
}

cudaError_t launch_pad(const Pieces& p, int64_t before, const void* src, void* dst, cudaStream_t stream) {
  return with_word(p.length | p.src_step | p.dst_step | before, src, dst, [=](auto word, int64_t bytes) {
    using Word = decltype(word);
    const Pieces words = in_words(p, bytes);
    return launch(pad_words<Word>, blocks_for(words.rows * words.dst_step), dim3(kThreads), stream, words,
                  before / bytes, static_cast<const Word*>(src), static_cast<Word*>(dst));
  });
}

}  // namespace trainer::cuda
