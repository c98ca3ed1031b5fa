// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace trainer {

/// Which ranks communicate: those that differ in this coordinate alone. Along `data` go ranks with samples of
/// their own; `shards` hold one copy of the parameters together, `replicas` the same part of it. Along
/// `tensor` go ranks that share the operations on the same samples, along `pipeline` ranks with consecutive
/// layers.
enum class Axis { data, shards, replicas, tensor, pipeline };

inline constexpr std::array kAxes = {Axis::data, Axis::shards, Axis::replicas, Axis::tensor, Axis::pipeline};

constexpr const char* to_string(Axis axis) {
  switch (axis) {
    case Axis::data:
      return "data";
    case Axis::shards:
      return "shards";
    case Axis::replicas:
      return "replicas";
    case Axis::tensor:
      return "tensor";
    case Axis::pipeline:
      return "pipeline";
  }
  return "";
}

/// An axis and the number of ranks along it.
struct Along {
  Axis axis = Axis::data;
  int64_t ranks = 1;
  bool operator==(const Along&) const = default;
};

/// The ranks of a run as a grid: rank = ((stage * replicas + replica) * shards + shard) * tensor + its place
/// along `tensor`. Ranks that communicate most are neighbours.
struct Mesh {
  int64_t replicas = 1;  ///< copies of the parameters
  int64_t shards = 1;    ///< ranks that share a copy
  int64_t tensor = 1;    ///< ranks that share operations
  int64_t stages = 1;    ///< of the pipeline: groups of ranks with layers of their own
  bool operator==(const Mesh&) const = default;

  constexpr int64_t ranks() const { return stages * ranks_of_stage(); }
  constexpr int64_t ranks_of_stage() const { return replicas * shards * tensor; }
  constexpr int64_t size(Axis axis) const {
    return axis == Axis::data       ? replicas * shards
           : axis == Axis::shards   ? shards
           : axis == Axis::tensor   ? tensor
           : axis == Axis::pipeline ? stages
                                    : replicas;
  }
  /// The position of a rank among those that it communicates with.
  constexpr int64_t coordinate(Axis axis, int64_t rank) const { return rank / stride(axis) % size(axis); }
  /// The rank at that position among those that `rank` communicates with.
  constexpr int64_t peer(Axis axis, int64_t rank, int64_t position) const {
    return rank + (position - coordinate(axis, rank)) * stride(axis);
  }
  /// From a rank to the next one along the axis.
  constexpr int64_t stride(Axis axis) const {
    return axis == Axis::tensor     ? 1
           : axis == Axis::replicas ? tensor * shards
           : axis == Axis::pipeline ? ranks_of_stage()
                                    : tensor;
  }
};

}  // namespace trainer
