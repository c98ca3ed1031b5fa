// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

// Saves the registers that a function must preserve for its caller, and continues on another stack. ucontext
// would ask the kernel for the signal mask each time, ten times as slow.
extern "C" void trainer_switch_stack(void** save, void* next);
asm(R"(
.text
.globl trainer_switch_stack
.type trainer_switch_stack, @function
trainer_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size trainer_switch_stack, .-trainer_switch_stack
)");

namespace trainer::emulation {
namespace {

constexpr size_t kGuardBytes = 4096;
/// Saved registers below the address that the switch returns to.
constexpr size_t kSavedRegisters = 6;

Fiber* starting = nullptr;
void (*starting_body)() = nullptr;

}  // namespace

struct FiberEntry {
  static void run() {
    Fiber* self = starting;
    starting_body();
    self->pause();
  }
};

Stacks::~Stacks() {
  for (std::byte* stack : all_) munmap(stack - kGuardBytes, kStackBytes + kGuardBytes);
}

std::byte* Stacks::take() {
  if (free_.empty()) {
    void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, kGuardBytes, PROT_NONE);
    all_.push_back(static_cast<std::byte*>(memory) + kGuardBytes);
    free_.push_back(all_.back());
  }
  std::byte* stack = free_.back();
  free_.pop_back();
  return stack;
}

/// The first switch returns into run(), with the stack as after a call: 8 bytes off a multiple of 16.
Fiber::Fiber(Stacks& stacks, void (*body)()) : stacks_(stacks), stack_(stacks.take()) {
  auto** top = reinterpret_cast<void**>(stack_ + kStackBytes);
  top[-2] = reinterpret_cast<void*>(&FiberEntry::run);
  own_pointer_ = top - 2 - kSavedRegisters;
  starting_body = body;
}

Fiber::~Fiber() {
  stacks_.give_back(stack_);
}

void Fiber::resume() {
  starting = this;
  trainer_switch_stack(&callers_pointer_, own_pointer_);
}

void Fiber::pause() {
  trainer_switch_stack(&own_pointer_, callers_pointer_);
}

}  // namespace trainer::emulation
