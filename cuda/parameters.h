// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/optimizer.h"

namespace trainer::cuda {

/// Elements of one parameter that a block takes.
constexpr int64_t kBlockElements = int64_t{kThreads} * Octet::kSize * 4;

/// Parameters, and which blocks are whose: parameter p has those from first_block[p] to first_block[p + 1].
struct ParameterTable {
  static constexpr size_t kMost = kMostInTable;
  int size;
  int first_block[kMost + 1];
  ParameterPointers of[kMost];
};
static_assert(sizeof(ParameterTable) + 512 <= 32764);

/// What a block works on.
struct Share {
  int parameter;
  int64_t begin, end;
};

__device__ inline Share share_of_block(const ParameterTable& table) {
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

/// Calls start(table, blocks, parameters before, blocks before) for each group of parameters that fits into a
/// table, until one fails.
template <class Start>
cudaError_t for_each_table(std::span<const ParameterPointers> parameters, const Start& start) {
  int64_t blocks_before = 0;
  for (size_t first = 0; first < parameters.size(); first += ParameterTable::kMost) {
    ParameterTable table{};
    for (size_t p = first; p < parameters.size() && p < first + ParameterTable::kMost; ++p) {
      const int at = table.size++;
      table.of[at] = parameters[p];
      table.first_block[at + 1] = table.first_block[at] + static_cast<int>(blocks_of(parameters[p].count));
    }
    const int blocks = table.first_block[table.size];
    const cudaError_t status = start(table, dim3(static_cast<unsigned>(blocks)), first, blocks_before);
    if (status != cudaSuccess) return status;
    blocks_before += blocks;
  }
  return cudaSuccess;
}

}  // namespace trainer::cuda
