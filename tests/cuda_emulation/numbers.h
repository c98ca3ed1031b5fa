// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>
#include "tests/catch.h"

#include "cuda/storage.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/memory.h"

namespace trainer::cuda {

/// Numbers in the emulation's device memory, stored as `dtype`, with inaccessible memory before and after.
class Numbers {
 public:
  Numbers(DType dtype, int64_t count)
      : dtype_(dtype),
        count_(count),
        memory_(emulation::allocate_device(static_cast<size_t>(count * bytes_per_element(dtype)))) {}
  Numbers(DType dtype, const std::vector<float>& values)
      : Numbers(dtype, static_cast<int64_t>(values.size())) {
    with_storage(dtype, [&](auto of) {
      auto* to = static_cast<decltype(of)*>(memory_);
      for (const float value : values) put(value, *to++);
    });
    emulation::mark_written(memory_, static_cast<size_t>(count_ * bytes_per_element(dtype)));
  }
  ~Numbers() { emulation::free_device(memory_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  void* get() const { return memory_; }
  std::vector<double> values() const {
    std::vector<double> values;
    with_storage(dtype_, [&](auto of) {
      const auto* from = static_cast<const decltype(of)*>(memory_);
      for (int64_t i = 0; i < count_; ++i) values.push_back(to_float(from[i]));
    });
    return values;
  }

 private:
  DType dtype_;
  int64_t count_;
  void* memory_;
};

inline void expect_no_faults() {
  for (const emulation::Fault& fault : emulation::take_faults()) FAIL_CHECK(fault.kind << ": " << fault.text);
}

}  // namespace trainer::cuda
