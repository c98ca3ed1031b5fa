// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace trainer {

/// Memory of one backend, 64-byte aligned at least, released by its allocator when the last owner is
/// destroyed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, int64_t bytes, std::function<void(void*)> release)
      : data_(data, std::move(release)), bytes_(bytes) {}

  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_{nullptr, [](void*) {}};
  int64_t bytes_ = 0;
};

/// Allocates buffers; the data pipeline allocates its ring with it, so that a GPU's can be page-locked.
using Allocator = std::function<Buffer(int64_t bytes)>;

/// Plain host memory. Throws Error (exit 71) if there is not enough.
Buffer allocate_host(int64_t bytes);

}  // namespace trainer
