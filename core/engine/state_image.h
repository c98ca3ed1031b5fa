// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "core/engine/executable.h"

namespace trainer {

/// A copy in host memory of everything persistent in an executable, at one moment. The executable may run
/// while the copy is read. Tensors of other ranks are not copied: they are read and written in the
/// executable's own memory (Executable::hold_elsewhere), and no step touches that.
class StateImage {
 public:
  /// own: allocates image_bytes(plan). shared: uses the device's memory itself, which must be host memory;
  /// the executable must not run while it is read.
  enum class Memory { own, shared };

  explicit StateImage(Executable& executable, Memory memory = Memory::own);
  static int64_t image_bytes(const Plan& plan) { return plan.persistent_bytes; }

  /// Waits until everything enqueued is done, and takes the state as it is then.
  void take();
  /// Copies the state back to the device.
  void restore();

  /// A persistent tensor's elements in row-major order, in pieces; of one in parts the whole's.
  void read(TensorId id, const std::function<void(std::span<const std::byte>)>& sink) const;
  /// From all its elements in row-major order.
  void write(TensorId id, std::span<const std::byte> bytes);

 private:
  std::span<std::byte> bytes() const;
  std::byte* at(TensorId id) const;
  const Tensor& tensor_of(TensorId id) const;

  Executable& executable_;
  std::optional<Buffer> memory_;
  std::byte* data_;
};

}  // namespace trainer
