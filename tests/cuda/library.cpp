// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstring>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/engine/backend_library.h"

using Catch::Matchers::ContainsSubstring;
using trainer::Error;
using trainer::ExitCode;

TEST_CASE("the library opens, and without a GPU says why it cannot run and what to do") {
  try {
    const auto backend = trainer::load_backend("cuda");
    CHECK(backend.planner->name() == "cuda");
    CHECK(backend.planner->memory_bytes() > 0);
    CHECK(backend.device != nullptr);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::no_device);
    CHECK_THAT(error.what(),
               ContainsSubstring("device.type=cuda: no CUDA device: cudaGetDeviceCount returned cudaError"));
    CHECK_THAT(error.what(),
               ContainsSubstring("run where a GPU") && ContainsSubstring("or write device.type=cpu"));
  }
}

TEST_CASE("the library refuses a program of another build, in as many letters as there is room for") {
  void* library = ::dlopen("libtrainer_cuda.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  REQUIRE(library != nullptr);
  auto* factory = reinterpret_cast<trainer::BackendFactory*>(::dlsym(library, trainer::kBackendFactory));
  REQUIRE(factory != nullptr);

  char reason[512];
  trainer::Backend backend;
  CHECK(factory("trainer backend interface 0", {}, backend, reason, sizeof reason) == ExitCode::no_device);
  CHECK((backend.planner == nullptr && backend.device == nullptr));
  CHECK_THAT(reason, ContainsSubstring("another build") && ContainsSubstring(trainer::kBackendInterface) &&
                         ContainsSubstring("expects trainer backend interface 0; install the two together"));

  std::memset(reason, '#', sizeof reason);
  factory("trainer backend interface 0", {}, backend, reason, 8);
  CHECK(backend.planner == nullptr);
  CHECK(std::string(reason) == "libtrai");
  CHECK(reason[8] == '#');
  ::dlclose(library);
}
