// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/psnr.h"

#include <algorithm>
#include <cmath>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void psnr(const Call& c) {
  const Shape& shape = c.shape_in(Psnr::kX);
  const int64_t area = shape[2] * shape[3], of_image = shape[1] * area;
  double sum = 0;
  for (int64_t n = 0; n < shape[0]; ++n) {
    double squares = 0;
    for (int64_t i = 0; i < of_image; ++i) {
      const int64_t place = n * of_image + i;
      const double error =
          (c.in(Psnr::kX)[place] - c.in(Psnr::kTargets)[place]) / c.in(Psnr::kScale)[i / area];
      squares += error * error;
    }
    const double mean = std::max(squares / static_cast<double>(of_image), 255 * 255 * 1e-10);
    if (c.in(Psnr::kWeights)[n] != 0) sum += c.in(Psnr::kWeights)[n] * 20 * std::log10(255 / std::sqrt(mean));
  }
  c.out(Psnr::kSum)[0] = sum;
}

}  // namespace

void add_psnr(Loops& loops) {
  loops[typeid(Psnr)] = psnr;
}

}  // namespace trainer::reference
