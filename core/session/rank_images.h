// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "core/engine/state_image.h"
#include "core/run/checkpoints.h"
#include "core/session/membership.h"

namespace trainer {

/// The images of the other ranks, on rank 0.
class RemoteImages final : public OtherImages {
 public:
  explicit RemoteImages(const Membership& membership) : membership_(membership) {}
  void read(int64_t rank, const std::string& tensor, int64_t begin, std::span<std::byte> bytes) override;
  void write(int64_t rank, const std::string& tensor, int64_t begin,
             std::span<const std::byte> bytes) override;

 private:
  const Membership& membership_;
};

/// The image of another rank, which rank 0 reads and writes: with Memory::own it may read while training
/// continues. A rank that holds no part that rank 0 needs has none, and all calls do nothing.
class OwnImage {
 public:
  OwnImage(const Membership& membership, Executable& executable, const CheckpointSettings& settings);
  OwnImage(const OwnImage&) = delete;
  OwnImage& operator=(const OwnImage&) = delete;
  ~OwnImage();

  /// As StateImage's. Rank 0 asks for nothing meanwhile.
  void take();
  void restore();

 private:
  std::string answer(const std::string& request);

  const Membership& membership_;
  std::mutex mutex_;  ///< the connections' thread answers
  std::optional<StateImage> image_;
};

}  // namespace trainer
