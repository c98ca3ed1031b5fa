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
  /// own: allocates image_bytes(plan). shared: uses the device's memory itself, which must be host memory;
  /// the executable must not run while it is read.
  enum class Memory { own, shared };

  /// `others` outlives it; without them only what this rank holds can be read and written.
  explicit StateImage(Executable& executable, Memory memory = Memory::own, OtherImages* others = nullptr);
  static int64_t image_bytes(const Plan& plan) { return plan.persistent_bytes; }
  /// Host memory beyond that which reading and writing takes on rank 0: the largest divided tensor and the
  /// pieces that travel.
  static int64_t whole_bytes(const Plan& plan);
  /// Whether rank 0 reads and writes the image of that rank.
  static bool is_read_by_rank_0(const Plan& plan, int64_t rank);

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
  TensorId held(const std::string& tensor, int64_t begin, size_t count) const;
  void read_stored(TensorId id, const std::function<void(std::span<const std::byte>)>& sink) const;
  void write_stored(TensorId id, std::span<const std::byte> bytes);
  void read_piece(int64_t rank, TensorId id, int64_t begin, std::span<std::byte> piece);
  void write_piece(int64_t rank, TensorId id, int64_t begin, std::span<const std::byte> piece);
  const Tensor& tensor_of(TensorId id) const;
  int64_t element_bytes(TensorId id) const;

  Executable& executable_;
  OtherImages* others_;
  std::optional<Buffer> memory_;
  std::byte* data_;
  Converted converted_;
  std::vector<std::byte> whole_;  ///< rank 0: of the divided tensor that is read
};

/// Changes an executable's state by an image, while nothing runs.
void change_state(Executable& executable, OtherImages* others,
                  const std::function<void(StateImage&)>& change);

/// The rank from which others and rank 0 get part `index` of a tensor: the first one that holds it.
int64_t first_holder(const Tensor& tensor, int64_t index);

}  // namespace trainer
