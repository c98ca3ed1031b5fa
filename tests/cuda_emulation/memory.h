// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace trainer::emulation {

/// Device memory with a record of each byte's last accesses, kept if kernels are compiled with checks.
void* allocate_device(size_t bytes);
bool free_device(void* memory);
bool is_allocated(const void* address, size_t bytes);
/// Size of the allocation at this address; 0 if no allocation begins there.
size_t allocated_bytes(const void* memory);
/// The host, or a copy, has written these bytes.
void mark_written(const void* address, size_t bytes);

/// Whether kernels report their accesses: they were compiled with -fsanitize=thread.
bool checking();

// The memory that blocks share; emptied for each block.
void reset_shared();

/// A tensor in one of the two large allocations of a plan, as one kernel may use it.
struct Window {
  /// `write` has no value before, and all of it after; a `workspace` has none before or after.
  enum class Use { read, update, write, workspace };
  void* begin;
  size_t bytes;
  Use use;
};

/// While it exists, kernels may access only its windows within the allocations that contain them.
class Fence {
 public:
  explicit Fence(std::vector<Window> windows);
  ~Fence();
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  /// Reports windows that were to be written and have unwritten bytes.
  void expect_written() const;

 private:
  std::vector<Window> windows_;
};

}  // namespace trainer::emulation
