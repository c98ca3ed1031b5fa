// SPDX-License-Identifier: Apache-2.0
#include "tests/config/failing_new.h"

#include <cstdlib>

namespace {

thread_local int64_t left = 0;
thread_local bool has_failed = false;

}  // namespace

namespace trainer {

void fail_allocation(int64_t number) {
  left = number;
  has_failed = false;
}

bool allocation_has_failed() {
  return has_failed;
}

}  // namespace trainer

void* operator new(std::size_t bytes) {
  if (left > 0 && --left == 0) {
    has_failed = true;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();  // throws, or has found memory
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
// A sanitizer's form without exceptions would have memory of its own.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
