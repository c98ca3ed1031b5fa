// SPDX-License-Identifier: Apache-2.0
#include "cuda/ranges.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include "tests/catch.h"

namespace trainer {
namespace {

class Counting final : public Kernel {
 public:
  explicit Counting(int& runs) : runs_(runs) {}
  void run() override {
    if (++runs_ == 2) throw std::runtime_error("a kernel fails");
  }

 private:
  int& runs_;
};

}  // namespace

TEST_CASE("a profiler sees a range for each kernel, which ends where the kernel fails too") {
  REQUIRE(::setenv("NVTX_INJECTION64_PATH", FAKE_PROFILER, 1) == 0);
  int runs = 0;
  const auto first = cuda::in_range("conv2d model.layers[0]", std::make_unique<Counting>(runs));
  const auto second = cuda::in_range("linear model.layers[7]", std::make_unique<Counting>(runs));
  first->run();
  CHECK_THROWS_AS(second->run(), std::runtime_error);
  CHECK(runs == 2);
  void* library = ::dlopen(FAKE_PROFILER, RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto noted = reinterpret_cast<const char* (*)()>(::dlsym(library, "fake_profiler_noted"));
  REQUIRE(noted != nullptr);
  CHECK(std::string(noted()) == "[conv2d model.layers[0]][linear model.layers[7]]");
  ::dlclose(library);
}

}  // namespace trainer
