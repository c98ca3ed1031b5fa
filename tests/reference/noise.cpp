// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

/// Word e % 4 of block e / 4 decides about element e of a sample.
void noisy(const Call& c) {
  const auto& op = c.as<Noise>();
  const Shape& shape = c.shape_in(Noise::kX);
  const int64_t area = shape[2] * shape[3], of_sample = shape[1] * area;
  const int32_t step = c.has_input(Noise::kStep) ? c.in<int32_t>(Noise::kStep)[0] : 0;
  for (int64_t i = 0, count = c.count_in(Noise::kX); i < count; ++i) {
    const int64_t e = i % of_sample, channel = e / area;
    const Words words =
        philox(op.key, element_counter(e / 4, c.in<int32_t>(Noise::kSample)[i / of_sample], step));
    c.out(Noise::kY)[i] = std::visit(
        [&](const auto& rule) {
          const DrawnPair<double> pair =
              rule.template draw<double>(words.v[e % 4 / 2 * 2], words.v[e % 4 / 2 * 2 + 1]);
          return rule.apply(c.in(Noise::kX)[i], e % 2 == 0 ? pair.first : pair.second,
                            c.in(Noise::kScale)[channel], c.in(Noise::kOffset)[channel]);
        },
        op.rule);
  }
}

}  // namespace

void add_noise(Loops& loops) {
  loops[typeid(Noise)] = noisy;
}

}  // namespace trainer::reference
