// SPDX-License-Identifier: Apache-2.0
#include "tests/data/counting_new.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int64_t count = 0;
}

namespace trainer {
int64_t allocations_here() {
  return count;
}
}  // namespace trainer

void* operator new(std::size_t bytes) {
  ++count;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
