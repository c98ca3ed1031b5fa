// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl.h"

#include <cstring>
#include "tests/catch.h"

#include "core/base/error.h"

using trainer::cuda::Nccl;

TEST_CASE("the real NCCL gives ids, for which it needs no GPU") {
  const Nccl* library = nullptr;
  try {
    library = &trainer::cuda::nccl();
  } catch (const trainer::Error& missing) {
    CHECK(missing.code() == trainer::ExitCode::no_device);
    CHECK_THAT(missing.what(), Catch::Matchers::ContainsSubstring("libnccl.so.2") &&
                                   Catch::Matchers::ContainsSubstring("LD_LIBRARY_PATH"));
    WARN(missing.what());
    return;
  }
  int version = 0;
  CHECK(library->get_version(&version) == 0);
  CHECK(version >= 21800);
  CHECK(trainer::cuda::nccl_version(*library).starts_with("2."));
  Nccl::UniqueId first{}, second{};
  CHECK(library->get_unique_id(&first) == 0);
  CHECK(library->get_unique_id(&second) == 0);
  CHECK(std::memcmp(&first, &second, sizeof first) != 0);
}
