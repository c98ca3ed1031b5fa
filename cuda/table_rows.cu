// SPDX-License-Identifier: Apache-2.0
#include "cuda/table_rows.h"

#include "cuda/grid.h"
#include "cuda/rows.h"

// Sums without atomics: tokens are sorted by their rows, and each block adds up the tokens of one row.

namespace trainer::cuda {
namespace {

struct AddRow {
  __device__ float operator()(float sum, float value) const { return sum + value; }
};

/// y is the row of each token or, with x, the sum of both.
template <class T, class Table>
__global__ void read_rows(TableAccess access, const T* x, const Table* table, T* y) {
  wait_for_previous_kernels();
  const int64_t octets = (access.width + Octet::kSize - 1) / Octet::kSize, count = access.tokens * octets;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t token = i / octets, column = i % octets * Octet::kSize, left = access.width - column;
    const int64_t place = token * access.width + column;
    const int64_t of_token = access.row_of(token);
    Octet row{};
    if (of_token != kElsewhere) row = load(table + of_token * access.width + column, left);
    if (x != nullptr) row = each(AddRow{}, row, load(x + place, left));
    store(row, left, y + place);
  }
}

/// Row and token. All keys differ, and those of a row follow one another in the order of tokens.
using Key = uint64_t;
__device__ inline int64_t row_in(Key key) {
  return static_cast<int64_t>(key >> 32);
}
__device__ inline int64_t token_in(Key key) {
  return static_cast<int64_t>(key & 0xFFFFFFFFu);
}

/// How many of the sorted keys [begin, end) are less than `bound`.
__device__ inline int64_t count_below(const Key* keys, int64_t begin, int64_t end, Key bound) {
  const int64_t first = begin;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (keys[middle] < bound) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin - first;
}

/// The position of key i after each pair of neighbouring runs of `length` sorted keys has been merged.
__device__ inline int64_t merged_place(const Key* keys, int64_t count, int64_t length, int64_t i) {
  const int64_t run = i / length, pair = run / 2 * 2 * length;
  int64_t other = (run ^ 1) * length, other_end = other + length;
  if (other > count) other = count;
  if (other_end > count) other_end = count;
  return pair + i % length + count_below(keys, other, other_end, keys[i]);
}

/// Runs of kThreads sorted keys.
__global__ void __launch_bounds__(kThreads) sort_blocks(TableAccess access, Key* keys) {
  wait_for_previous_kernels();
  TRAINER_SHARED(Key, shared, [2][kThreads]);
  const int64_t before = static_cast<int64_t>(blockIdx.x) * kThreads, i = threadIdx.x, token = before + i;
  const int64_t rest = access.tokens - before, count = rest < kThreads ? rest : kThreads;
  if (i < count) {
    const int64_t row = access.row_of(token);
    // Tokens whose row another rank has come last.
    shared[0][i] = static_cast<Key>(row == kElsewhere ? access.rows : row) << 32 | static_cast<Key>(token);
  }
  int from = 0;
  for (int64_t length = 1; length < kThreads; length *= 2, from = 1 - from) {
    __syncthreads();
    if (i < count) shared[1 - from][merged_place(shared[from], count, length, i)] = shared[from][i];
  }
  __syncthreads();
  if (i < count) keys[token] = shared[from][i];
}

__global__ void __launch_bounds__(kThreads)
    merge_runs(int64_t count, int64_t length, const Key* from, Key* to) {
  wait_for_previous_kernels();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) to[merged_place(from, count, length, i)] = from[i];
}

/// A block for each key; the first one of each row works. Threads above each other share its tokens.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_runs(TableAccess access, const Key* keys, const T* dy, float* table) {
  wait_for_previous_kernels();
  const int64_t begin = blockIdx.x, row = row_in(keys[begin]);
  if (row == access.rows || (begin > 0 && row_in(keys[begin - 1]) == row)) return;
  const int64_t end = begin + count_below(keys, begin, access.tokens, static_cast<Key>(row + 1) << 32);
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * Octet::kSize,
                left = access.width - column;
  Sums own{};
  if (left > 0) {
    for (int64_t i = begin + threadIdx.y; i < end; i += blockDim.y) {
      own.a = each(AddRow{}, own.a, load(dy + token_in(keys[i]) * access.width + column, left));
    }
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y == 0 && left > 0) store(own.a, left, table + row * access.width + column);
}

__global__ void fill_zeros(float* x, int64_t count) {
  wait_for_previous_kernels();
  for (int64_t i = first_element(); i < count; i += all_elements()) store(Octet{}, count - i, x + i);
}

/// Sorts with `keys` and `spare`, one of which has the result.
cudaError_t sort_tokens(const TableAccess& access, Key*& keys, Key* spare, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>((access.tokens + kThreads - 1) / kThreads));
  cudaError_t status = launch(sort_blocks, blocks, dim3(kThreads), stream, access, keys);
  for (int64_t length = kThreads; length < access.tokens && status == cudaSuccess; length *= 2) {
    status = launch(merge_runs, blocks, dim3(kThreads), stream, access.tokens, length, keys, spare);
    std::swap(keys, spare);
  }
  return status;
}

}  // namespace

cudaError_t launch_read_rows(const TableAccess& access, DType dtype, const void* table, void* y,
                             cudaStream_t stream) {
  return with_storage(dtype, [&](auto element) {
    using T = decltype(element);
    return launch(read_rows<T, T>, blocks_for(access.tokens * access.width), dim3(kThreads), stream, access,
                  static_cast<const T*>(nullptr), static_cast<const T*>(table), static_cast<T*>(y));
  });
}

cudaError_t launch_add_rows(const TableAccess& access, DType dtype, const void* x, const float* table,
                            void* y, cudaStream_t stream) {
  return with_storage(dtype, [&](auto element) {
    using T = decltype(element);
    return launch(read_rows<T, float>, blocks_for(access.tokens * access.width), dim3(kThreads), stream,
                  access, static_cast<const T*>(x), table, static_cast<T*>(y));
  });
}

int64_t sum_rows_workspace(int64_t tokens) {
  return 2 * tokens * static_cast<int64_t>(sizeof(Key));
}

int sum_rows_kernels(int64_t tokens) {
  int kernels = 3;  // zeros, the blocks' sorting, the sums
  for (int64_t length = kThreads; length < tokens; length *= 2) ++kernels;
  return kernels;
}

cudaError_t launch_sum_rows(const TableAccess& access, DType dtype, const void* dy, float* table,
                            void* workspace, cudaStream_t stream) {
  const int64_t count = access.rows * access.width;
  cudaError_t status = launch(fill_zeros, blocks_for(count), dim3(kThreads), stream, table, count);
  if (status != cudaSuccess) return status;
  Key* keys = static_cast<Key*>(workspace);
  status = sort_tokens(access, keys, keys + access.tokens, stream);
  if (status != cudaSuccess) return status;
  const RowSweep sweep(1, access.width);
  const dim3 grid(static_cast<unsigned>(access.tokens), static_cast<unsigned>(sweep.columns()));
  return with_storage(dtype, [&](auto element) {
    using T = decltype(element);
    return launch(sum_runs<T>, grid, sweep.block(), stream, access, keys, static_cast<const T*>(dy), table);
  });
}

}  // namespace trainer::cuda
