// SPDX-License-Identifier: Apache-2.0
#include "core/data/subset.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/order.h"

namespace trainer {

int64_t validation_count(int64_t size, double fraction) {
  if (size < 2) throw Error(ExitCode::data, "data.val_fraction: one sample cannot be split");
  return std::clamp<int64_t>(std::llround(fraction * static_cast<double>(size)), 1, size - 1);
}

/// The first samples of a separate shuffled order, so that the choice does not depend on epochs.
std::vector<int64_t> split_samples(int64_t size, Split split, double fraction, uint64_t seed) {
  const int64_t of_validation = validation_count(size, fraction);
  const uint64_t order = random_key(seed, "validation split");
  const int64_t begin = split == Split::val ? 0 : of_validation;
  const int64_t end = split == Split::val ? of_validation : size;
  std::vector<int64_t> samples;
  samples.reserve(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) samples.push_back(shuffled_index(order, 0, i, size));
  std::sort(samples.begin(), samples.end());
  return samples;
}

}  // namespace trainer
