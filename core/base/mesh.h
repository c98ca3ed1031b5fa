// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer {

/// Which ranks communicate: those that differ in this coordinate alone. Along `data` go all ranks, each with
/// samples of its own; `shards` hold one copy of the parameters together, `replicas` the same part of it.
enum class Axis { data, shards, replicas };

constexpr const char* to_string(Axis axis) {
  return axis == Axis::data ? "data" : axis == Axis::shards ? "shards" : "replicas";
}

/// The ranks of a run as a grid: rank = replica * shards + shard. The ranks that hold one copy of the
/// parameters are neighbours, since these communicate most.
struct Mesh {
  int64_t replicas = 1;  ///< copies of the parameters
  int64_t shards = 1;    ///< ranks that share a copy
  bool operator==(const Mesh&) const = default;

  constexpr int64_t ranks() const { return replicas * shards; }
  constexpr int64_t size(Axis axis) const {
    return axis == Axis::data ? ranks() : axis == Axis::shards ? shards : replicas;
  }
  /// The position of a rank among those that it communicates with.
  constexpr int64_t coordinate(Axis axis, int64_t rank) const {
    return axis == Axis::data ? rank : axis == Axis::shards ? rank % shards : rank / shards;
  }
  /// The rank at that position among those that `rank` communicates with.
  constexpr int64_t peer(Axis axis, int64_t rank, int64_t position) const {
    return axis == Axis::data     ? position
           : axis == Axis::shards ? rank / shards * shards + position
                                  : position * shards + rank % shards;
  }
};

}  // namespace trainer
