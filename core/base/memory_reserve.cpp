// SPDX-License-Identifier: Apache-2.0
#include "core/base/memory_reserve.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace trainer {
namespace {

thread_local MemoryReserve* innermost = nullptr;

}  // namespace

/// The process's new handler: if it returns, the allocation is tried once more.
void MemoryReserve::give() {
  if (innermost == nullptr || innermost->block_ == nullptr) throw std::bad_alloc();
  std::free(std::exchange(innermost->block_, nullptr));
}

MemoryReserve::MemoryReserve(size_t bytes)
    : block_(std::malloc(bytes)), outer_(std::exchange(innermost, this)) {
  static const std::new_handler before = std::set_new_handler(give);
  static_cast<void>(before);
  if (block_ != nullptr) return;
  innermost = outer_;
  throw std::bad_alloc();
}

MemoryReserve::~MemoryReserve() {
  std::free(block_);
  innermost = outer_;
}

void MemoryReserve::require_untouched() const {
  if (block_ == nullptr) throw std::bad_alloc();
}

}  // namespace trainer
