// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

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

}  // namespace trainer
