// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/append_to_cache.h"
#include "tests/cuda/cases.h"

namespace trainer {

void add_append_to_cache_cases(std::vector<KernelCase>& cases) {
  struct Place {
    int64_t samples, cached, rows, width;
    int first;
  };
  // The last two of each width reach the end of the cache, and beyond.
  for (const int64_t width : {1, 3, 8, 130}) {
    for (const Place& p : {Place{1, 5, 1, width, 0}, Place{3, 9, 4, width, 2}, Place{2, 70, 64, width, 6},
                           Place{2, 7, 4, width, 5}}) {
      cases.push_back({fmt::format("append_to_cache {} of width {} at {}", p.rows, p.width, p.first),
                       [=](Sketch& sketch) {
                         const TensorId cache = sketch.input("cache", {p.samples, p.cached, p.width}),
                                        rows = sketch.input("rows", {p.samples, p.rows, p.width}),
                                        first = sketch.integers("first", 1, 9);
                         sketch.values["first"][0] = static_cast<float>(p.first);
                         sketch.output("y", sketch.build().emit<AppendToCache>({cache, rows, first}));
                         sketch.loss(sketch.parameter("p", {3}));
                       }});
    }
  }
}

}  // namespace trainer
