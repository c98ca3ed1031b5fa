// SPDX-License-Identifier: Apache-2.0
#include "cuda/channels.h"

#include "tests/catch.h"

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/numbers.h"
#include "tests/sanitized.h"

namespace trainer::cuda {

TEST_CASE("there may be more pictures than a grid has layers") {
  if (kIsSanitized || emulation::checking()) return;  // so many blocks take a minute then
  constexpr int64_t kSamples = 65'535 + 3, kPixels = 2;
  std::vector<float> pixels(static_cast<size_t>(kSamples * kPixels));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 251);
  const Numbers x(DType::f32, pixels), sums(DType::f32, kSamples);
  const Pictures pictures{kSamples, kPixels, 1, DType::f32};
  REQUIRE(launch_picture_sums(pictures, 0.5f, x.get(), nullptr, sums.get(), nullptr) == cudaSuccess);
  const std::vector<double> found = sums.values();
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != (pixels[2 * i] + pixels[2 * i + 1]) / 2) FAIL_CHECK("picture " << i << ": " << found[i]);
  }
  expect_no_faults();
}

}  // namespace trainer::cuda
