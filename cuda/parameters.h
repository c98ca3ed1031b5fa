// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/optimizer.h"

namespace trainer::cuda {

/// Elements of one parameter that a block takes.
constexpr int64_t kBlockElements = int64_t{kThreads} * Octet::kSize * 4;

/// Items of a `count` each, and their blocks: item i has those from first_block[i] to
/// first_block[i + 1].
template <class Pointers>
struct Table {
  static constexpr size_t kMost = kMostInTable;
  int size;
  int first_block[kMost + 1];
  Pointers of[kMost];
};
using ParameterTable = Table<ParameterPointers>;
static_assert(sizeof(ParameterTable) + 512 <= 32764);

/// A block's part of the work.
struct Share {
  int item;
  int64_t begin, end;
};

template <class Pointers>
__device__ inline Share share_of_block(const Table<Pointers>& table) {
  const int block = static_cast<int>(blockIdx.x);
  int low = 0, high = table.size - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const int64_t begin = (block - table.first_block[low]) * kBlockElements, count = table.of[low].count;
  return {low, begin, begin + kBlockElements < count ? begin + kBlockElements : count};
}

inline int64_t blocks_of(int64_t count) {
  return (count + kBlockElements - 1) / kBlockElements;
}

/// Calls start(table, blocks, items before, blocks before) for each group of items that fits into a table,
/// until one fails.
template <class Pointers, class Start>
cudaError_t for_each_table(std::span<const Pointers> items, const Start& start) {
  int64_t blocks_before = 0;
  for (size_t first = 0; first < items.size(); first += kMostInTable) {
    Table<Pointers> table{};
    for (size_t i = first; i < items.size() && i < first + kMostInTable; ++i) {
      const int at = table.size++;
      table.of[at] = items[i];
      table.first_block[at + 1] = table.first_block[at] + static_cast<int>(blocks_of(items[i].count));
    }
    const int blocks = table.first_block[table.size];
    const cudaError_t status = start(table, dim3(static_cast<unsigned>(blocks)), first, blocks_before);
    if (status != cudaSuccess) return status;
    blocks_before += blocks;
  }
  return cudaSuccess;
}

}  // namespace trainer::cuda
