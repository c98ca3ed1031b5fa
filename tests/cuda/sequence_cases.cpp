// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/embedding.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// From one token to several blocks of sorted ones, and more rows of a table than there are tokens.
void add_embeddings(std::vector<KernelCase>& cases) {
  struct Extents {
    int64_t samples, tokens, vocabulary, features;
  };
  for (const Extents& e : {Extents{1, 1, 2, 2}, Extents{2, 31, 3, 33}, Extents{3, 257, 40, 8},
                           Extents{1, 1100, 1, 9}, Extents{2, 16, 1031, 264}}) {
    cases.push_back(differentiable(
        fmt::format("embedding {}x{} of {}x{}", e.samples, e.tokens, e.vocabulary, e.features),
        [=](Sketch& sketch) {
          const TensorId ids = sketch.integers("ids", {e.samples, e.tokens}, e.vocabulary);
          return sketch.build().emit<Embedding>({ids, sketch.parameter("table", {e.vocabulary, e.features})});
        }));
  }
}

}  // namespace

void add_sequence_cases(std::vector<KernelCase>& cases) {
  add_embeddings(cases);
}

}  // namespace trainer
