// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

#include <algorithm>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void embedding(const Call& call) {
  const int64_t width = call.shape_in(1)[1];
  for (int64_t token = 0; token < call.count_in(0); ++token) {
    for (int64_t e = 0; e < width; ++e)
      call.out(0)[token * width + e] = call.in(1)[call.in<int32_t>(0)[token] * width + e];
  }
}

void embedding_backward(const Call& call) {
  const int64_t width = call.shape_out(0)[1];
  std::fill_n(call.out(0), call.count_out(0), 0.0);
  for (int64_t token = 0; token < call.count_in(0); ++token) {
    for (int64_t e = 0; e < width; ++e)
      call.out(0)[call.in<int32_t>(0)[token] * width + e] += call.in(1)[token * width + e];
  }
}

}  // namespace

void add_embedding(Loops& loops) {
  loops[typeid(Embedding)] = embedding;
  loops[typeid(EmbeddingBackward)] = embedding_backward;
}

}  // namespace trainer::reference
