// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace trainer {

/// Memory for std::free, aligned to a cache line; from two huge pages on, to a huge page, which the system is
/// asked to use: its first use costs less, as do later misses of the TLB. Null if there is no memory.
void* allocate_aligned(size_t bytes);

/// Of a vector of many numbers: resize() leaves them as the memory is.
template <class T>
struct LargeAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): an allocator has it
  LargeAllocator() = default;
  template <class U>
  explicit LargeAllocator(const LargeAllocator<U>& /*other*/) {}

  T* allocate(size_t count) {
    void* const data = allocate_aligned(count * sizeof(T));
    if (data == nullptr) throw std::bad_alloc();
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t /*count*/) { std::free(data); }
  template <class U, class... Values>
  void construct(U* place, Values&&... values) {
    if constexpr (sizeof...(Values) == 0) {
      ::new (static_cast<void*>(place)) U;
    } else {
      ::new (static_cast<void*>(place)) U(std::forward<Values>(values)...);
    }
  }
  bool operator==(const LargeAllocator&) const = default;
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace trainer
