// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine/executable.h"

namespace trainer {

/// The images of other ranks, which rank 0 reads and writes as StateImage::read_own and write_own do.
class OtherImages {
 public:
  virtual ~OtherImages() = default;
  virtual void read(int64_t rank, const std::string& tensor, int64_t begin, std::span<std::byte> bytes) = 0;
  virtual void write(int64_t rank, const std::string& tensor, int64_t begin,
                     std::span<const std::byte> bytes) = 0;
};

/// A copy in host memory of everything persistent in an executable, at one moment. The executable may run
/// while the copy is read. Of a tensor that ranks divide each rank's image has its own part. Rank 0 reads and
/// writes the whole: it exchanges pieces of at most 1 MiB with the images of the others.
class StateImage {
 public:
  /// own: the image allocates image_bytes(plan, extent). shared: the image is the device's own memory, which
  /// must be host memory. The executable must not run while a shared image is read.
  enum class Memory { own, shared };
  /// divided: of what this rank has of divided tensors alone.
  enum class Extent { all, divided };

  /// `others` outlives it; without them only what this rank holds can be read and written.
  explicit StateImage(Executable& executable, Memory memory = Memory::own, OtherImages* others = nullptr,
                      Extent extent = Extent::all);
  static int64_t image_bytes(const Plan& plan, Extent extent = Extent::all);
  /// Further host memory with which the plan's rank exchanges divided tensors. Rank 0 holds the largest whole
  /// tensor; any rank may hold a row-major copy of its part, and a few pieces that are being sent.
  static int64_t exchange_bytes(const Plan& plan);
  /// Of an image that is read or written while nothing runs.
  static Memory usual_memory(const Plan& plan);
  /// Whether ranks divide something that checkpoints hold; the same on all ranks.
  static bool is_divided(const Plan& plan);
  /// Whether rank 0 exchanges something with the image of that rank.
  static bool has_share(const Plan& plan, int64_t rank);

  /// Waits until everything enqueued is done, and takes the state as it is then.
  void take();
  /// Copies the state back to the device.
  void restore();

  /// A persistent tensor's elements in row-major order, in pieces; of a divided one the whole's.
  void read(TensorId id, const std::function<void(std::span<const std::byte>)>& sink);
  /// From all its elements in row-major order.
  void write(TensorId id, std::span<const std::byte> bytes);

  /// Bytes of what this rank holds of a tensor, in row-major order, from byte `begin` on. Throws
  /// std::logic_error if it does not hold them.
  void read_own(const std::string& tensor, int64_t begin, std::span<std::byte> bytes);
  /// The same; pieces come in order, and the tensor has its values after the last one.
  void write_own(const std::string& tensor, int64_t begin, std::span<const std::byte> bytes);

 private:
  /// A tensor's own elements in row-major order, where they are stored otherwise.
  struct Converted {
    TensorId id = kNone;
    std::vector<std::byte> bytes;
  };

  std::span<std::byte> bytes() const;
  std::byte* at(TensorId id) const;
  std::span<std::byte> own(TensorId id);
  TensorId checked_id(const std::string& tensor, int64_t begin, size_t count) const;
  size_t largest_whole() const;
  OtherImages& others() const;
  void read_stored(TensorId id, const std::function<void(std::span<const std::byte>)>& sink) const;
  void write_stored(TensorId id, std::span<const std::byte> bytes);
  const Tensor& tensor_of(TensorId id) const;
  int64_t element_bytes(TensorId id) const;

  Executable& executable_;
  OtherImages* others_;
  int64_t bytes_;
  std::optional<Buffer> memory_;
  std::byte* data_;
  Converted converted_;
  std::vector<std::byte> whole_;  ///< rank 0: of the divided tensor that is read
};

/// The first rank that holds part `index` of a tensor. Rank 0 and further holders get it from there.
int64_t first_holder(const Tensor& tensor, int64_t index);

}  // namespace trainer
