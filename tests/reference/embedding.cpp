// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

#include <algorithm>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void embedding(const Call& call) {
  const int64_t width = call.shape_in(Embedding::kTable)[1];
  for (int64_t token = 0; token < call.count_in(Embedding::kIds); ++token) {
    for (int64_t e = 0; e < width; ++e)
      call.out(Embedding::kY)[token * width + e] =
          call.in(Embedding::kTable)[call.in<int32_t>(Embedding::kIds)[token] * width + e];
  }
}

void embedding_backward(const Call& call) {
  const int64_t width = call.shape_out(EmbeddingBackward::kDtable)[1];
  std::fill_n(call.out(EmbeddingBackward::kDtable), call.count_out(EmbeddingBackward::kDtable), 0.0);
  for (int64_t token = 0; token < call.count_in(EmbeddingBackward::kIds); ++token) {
    for (int64_t e = 0; e < width; ++e)
      call.out(EmbeddingBackward::kDtable)[call.in<int32_t>(EmbeddingBackward::kIds)[token] * width + e] +=
          call.in(EmbeddingBackward::kDy)[token * width + e];
  }
}

}  // namespace

void add_embedding(Loops& loops) {
  loops[typeid(Embedding)] = embedding;
  loops[typeid(EmbeddingBackward)] = embedding_backward;
}

}  // namespace trainer::reference
