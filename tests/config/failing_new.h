// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <new>

namespace trainer {

/// Of this thread's allocations from here on, the one of this number fails; 0: none.
void fail_allocation(int64_t number);
/// Whether it has.
bool allocation_has_failed();

/// Calls `work` repeatedly, each time with another of its allocations failing. Returns their number.
template <class Work>
int64_t fail_each_allocation(const Work& work) {
  for (int64_t number = 1;; ++number) {
    fail_allocation(number);
    bool reported = false;
    try {
      work();
    } catch (const std::bad_alloc&) {
      reported = true;
    }
    const bool failed = allocation_has_failed();
    fail_allocation(0);
    if (!failed) return number - 1;
    if (!reported) return -number;
  }
}

}  // namespace trainer
