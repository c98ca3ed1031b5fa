// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

#include "core/engine/process_group.h"

namespace trainer::test {

/// A rank's place among others that do not exist: for operations that depend on it alone.
class PlaceGroup final : public ProcessGroup {
 public:
  PlaceGroup(int64_t rank, const Mesh& mesh) : rank_(rank) { arrange(mesh); }
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return mesh().ranks(); }
  void vote(int64_t, const Vote&) override { refuse(); }
  Vote result(int64_t) override { refuse(); }
  void all_reduce(std::span<double>) override { refuse(); }
  void broadcast(std::span<std::byte>, int64_t) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("there are no other ranks"); }

  int64_t rank_;
};

}  // namespace trainer::test
