// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/engine/state_image.h"

namespace trainer::test {

/// The images of ranks in one process, by rank.
struct ThreadImages final : OtherImages {
  std::vector<StateImage*> of;
  int64_t pieces = 0;  ///< exchanged

  explicit ThreadImages(size_t ranks) : of(ranks) {}
  void read(int64_t rank, const std::string& tensor, int64_t begin, std::span<std::byte> bytes) override {
    ++pieces;
    of.at(static_cast<size_t>(rank))->read_own(tensor, begin, bytes);
  }
  void write(int64_t rank, const std::string& tensor, int64_t begin,
             std::span<const std::byte> bytes) override {
    ++pieces;
    of.at(static_cast<size_t>(rank))->write_own(tensor, begin, bytes);
  }
};

}  // namespace trainer::test
