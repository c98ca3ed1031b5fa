// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include "tests/catch.h"

#include "core/base/error.h"
#include "tests/cuda/two_backends.h"
#include "tests/engine/transfers.h"

namespace trainer {

TEST_CASE("device memory is zeroed, and keeps what every type can hold as it was") {
  const auto gpu = cuda_or_skip();
  if (gpu) check_transfers(*gpu);
}

TEST_CASE("a batch's memory can be written by the host; nothing at all can be asked for") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  const Buffer batch = gpu->device->allocate_batch(4096);
  std::memset(batch.data(), 1, 4096);
  CHECK(batch.bytes() == 4096);
  CHECK(gpu->device->allocate(0).data() != nullptr);
  CHECK(gpu->device->allocate_batch(0).data() != nullptr);
}

TEST_CASE("more memory than the GPU has: exit code 71, what was asked for and what to do") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  try {
    gpu->device->allocate(int64_t{1} << 50);
    FAIL("a petabyte was allocated");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::out_of_memory);
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("out of GPU memory: requested") &&
                                 Catch::Matchers::ContainsSubstring("micro_batch_size"));
  }
}

}  // namespace trainer
