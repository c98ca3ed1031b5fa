// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include "tests/catch.h"

#include "tests/cuda/cases.h"
#include "tests/cuda_emulation/backend.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/ops/non_finite.h"
#include "tests/ops/parts.h"

namespace trainer {
namespace {

/// At random, backwards, as numbered.
constexpr uint32_t kSchedules[] = {7, 1, 0};

void expect_no_faults() {
  for (const emulation::Fault& fault : emulation::take_faults()) FAIL_CHECK(fault.kind << ": " << fault.text);
}

void check(const Backend& backend, const KernelCase& one) {
  INFO(one.name);
  for (const uint32_t schedule : kSchedules) {
    INFO("schedule " << schedule);
    emulation::set_schedule(schedule);
    check_backend(backend, one.draft, 1, one.tolerances);
    expect_no_faults();
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    if (!one.narrow) continue;
    check_narrow(backend, one.draft, dtype, 2, narrow_tolerances(dtype));
    expect_no_faults();
  }
}

}  // namespace

TEST_CASE("every kernel agrees with the reference in any order of threads, and accesses what it may") {
  const auto backend = make_emulated_backend();
  for (const CaseFamily& family : case_families()) {
    SECTION(family.name) {
      std::vector<KernelCase> cases;
      family.add(cases);
      for (const KernelCase& one : cases) check(backend, one);
    }
  }
}

TEST_CASE("ranks that share operations on GPUs compute parts of what one process does") {
  emulation::set_schedule(0);
  check_parts([](ProcessGroup* group) { return make_emulated_backend(group); });
  expect_no_faults();
}

TEST_CASE("NaN and infinities arrive through every kernel") {
  const auto backend = make_emulated_backend();
  emulation::set_schedule(0);
  NonFiniteCoverage coverage;
  for (const CaseFamily& family : case_families()) {
    std::vector<KernelCase> cases;
    family.add(cases);
    for (const KernelCase& one : cases) {
      INFO(one.name);
      if (has_more_elements(one.draft, 2000)) continue;
      check_non_finite(backend, one.draft, 1, coverage, Planting::brief);
      if (one.narrow) check_non_finite_narrow(backend, one.draft, DType::f16, 1, coverage, Planting::brief);
      expect_no_faults();
    }
  }
  std::cout << summary(coverage);
}

}  // namespace trainer
