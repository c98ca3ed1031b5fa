// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "core/base/error.h"
#include "tests/cuda/two_backends.h"

namespace trainer {

TEST_CASE("device memory is zeroed, and keeps what every type can hold as it was") {
  const auto gpu = cuda_or_skip();
  if (gpu == nullptr) return;
  constexpr int64_t kCount = 1003;
  const DType dtype = GENERATE(DType::f32, DType::i32, DType::f16);
  const Buffer device = gpu->allocate(kCount * 4);
  std::vector<float> back(kCount, 7.0f);
  gpu->download(back.data(), device.data(), kCount, dtype);
  CHECK(back == std::vector<float>(kCount, 0.0f));

  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), -500.0f);
  gpu->upload(device.data(), values.data(), kCount, dtype);
  gpu->download(back.data(), device.data(), kCount, dtype);
  CHECK(back == values);
}

TEST_CASE("a batch's memory can be written by the host; nothing at all can be asked for") {
  const auto gpu = cuda_or_skip();
  if (gpu == nullptr) return;
  const Buffer batch = gpu->allocate_batch(4096);
  std::memset(batch.data(), 1, 4096);
  CHECK(batch.bytes() == 4096);
  CHECK(gpu->allocate(0).data() != nullptr);
  CHECK(gpu->allocate_batch(0).data() != nullptr);
}

TEST_CASE("more memory than the GPU has: exit code 71, what was asked for and what to do") {
  const auto gpu = cuda_or_skip();
  if (gpu == nullptr) return;
  try {
    gpu->allocate(int64_t{1} << 50);
    FAIL("a petabyte was allocated");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::out_of_memory);
    CHECK_THAT(error.what(),
               Catch::Contains("out of GPU memory: asked for") && Catch::Contains("micro_batch_size"));
  }
}

}  // namespace trainer
