// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace trainer {

/// Memory for a library that crashes, or omits something, if an allocation fails. While a reserve exists, an
/// allocation of its thread (operator new) that finds no memory gets the reserve's, once. Of several reserves
/// the last counts.
class MemoryReserve {
 public:
  /// Throws std::bad_alloc if there is not enough memory for it.
  explicit MemoryReserve(size_t bytes);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  /// Throws std::bad_alloc if the reserve was needed.
  void require_untouched() const;

 private:
  static void give();

  void* block_;
  MemoryReserve* outer_;
};

}  // namespace trainer
