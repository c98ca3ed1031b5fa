// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include "tests/catch.h"

#include "core/graph/ops/optimizer_steps.h"
#include "cpu/backend.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/two_backends.h"

namespace trainer {

TEST_CASE("our own kernels agree with the reference on a GPU as they do in the emulation") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const CaseFamily& family : case_families()) {
    INFO(family.name);
    std::vector<KernelCase> cases;
    family.add(cases);
    for (const KernelCase& one : cases) {
      INFO(one.name);
      check_backend(*gpu, one.draft, 1, one.tolerances);
      for (const DType dtype : {DType::f16, DType::bf16}) {
        if (one.narrow) check_narrow(*gpu, one.draft, dtype, 2, narrow_tolerances(dtype));
      }
    }
  }
}

// Several blocks add up the parts of so many gradients.
TEST_CASE("the norm of 20 million gradients is right", "[.large]") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  constexpr int64_t kCount = 20'000'000;
  const auto norm = [&](const Backend& backend, size_t output) {
    const OneOperation operation{.inputs = {{kCount}}, .emit = [=](Builder& build, const auto& in) {
                                   return build.emit_all(std::make_shared<ClipByNorm>(1.0), {in[0]})[output];
                                 }};
    return run_on(backend, operation, 1, 1);
  };
  for (const size_t output : {size_t{ClipByNorm::kScale}, size_t{ClipByNorm::kNorm}})
    CHECK(distance(norm(*gpu, output), norm(make_cpu_backend(2), output)) < 1e-6);
}

}  // namespace trainer
