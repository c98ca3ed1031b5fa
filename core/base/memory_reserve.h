// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace trainer {

/// Memory for a library that crashes, or leaves something out, if it gets none. While one lives, an
/// allocation of its thread (operator new) for which there is no memory gets that of the reserve. It does not
/// help twice. Of several the last one counts.
class MemoryReserve {
 public:
  /// Throws std::bad_alloc if there is no memory for it.
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
