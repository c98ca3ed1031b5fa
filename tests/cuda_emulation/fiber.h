// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace trainer::emulation {

constexpr size_t kStackBytes = size_t{256} << 10;

/// Stacks with an inaccessible page after them, which are reused.
class Stacks {
 public:
  ~Stacks();
  std::byte* take();
  void give_back(std::byte* stack) { free_.push_back(stack); }

 private:
  std::vector<std::byte*> all_, free_;
};

/// A thread of execution that runs when resume() is called and until it calls pause() or ends.
class Fiber {
 public:
  Fiber(Stacks& stacks, void (*body)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  void resume();
  /// Called by the fiber itself.
  void pause();
  const std::byte* stack() const { return stack_; }

 private:
  Stacks& stacks_;
  std::byte* stack_;
  void* own_pointer_;
  void* callers_pointer_ = nullptr;
  friend struct FiberEntry;
};

}  // namespace trainer::emulation
