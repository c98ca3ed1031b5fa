// SPDX-License-Identifier: Apache-2.0
#include "core/engine/transfer_time.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace trainer {
namespace {

/// The placement of a group: its ranks on each node, and its nodes.
struct Spread {
  double on_node, nodes;
  double groups;  ///< that share a node's network cards
};

Spread spread_of(const MachineDescription& machine, const RankGroup& group) {
  const int64_t devices = machine.devices_of_node;
  const int64_t on_node = std::clamp<int64_t>(devices / group.stride, 1, group.ranks);
  const int64_t nodes = (group.ranks + on_node - 1) / on_node;
  if (nodes > 1 && !machine.among) throw std::logic_error("a transfer among nodes of a machine that has one");
  return {.on_node = static_cast<double>(on_node),
          .nodes = static_cast<double>(nodes),
          .groups = static_cast<double>(std::max<int64_t>(devices / on_node, 1))};
}

/// Rounds of a tree.
double depth(double count) {
  return std::ceil(std::log2(count));
}

/// The part of a tensor's bytes that each of `count` sends along a ring in one direction: to gather or to
/// scatter it.
double along_ring(double count) {
  return (count - 1) / count;
}

/// Seconds of data and of latency, on one kind of links.
struct Times {
  double data = 0, latency = 0;
  double seconds() const { return data + latency; }
};

/// Of `count` ranks, or nodes, with links whose latency and seconds for the data are given.
Times over_links(Transfer what, double count, double data, double latency) {
  switch (what) {
    case Transfer::sum:
      return {2 * along_ring(count) * data, 2 * (count - 1) * latency};
    case Transfer::gather:
    case Transfer::scatter:
      return {along_ring(count) * data, (count - 1) * latency};
    case Transfer::broadcast:
      return {data, depth(count) * latency};
    case Transfer::message:
      break;
  }
  return {data, latency};
}

Times within_node(const MachineDescription& machine, Transfer what, double ranks, double bytes) {
  if (ranks < 2) return {};
  return over_links(what, ranks, bytes / (machine.within.bytes * machine.link_share), machine.within.seconds);
}

Times among_nodes(const MachineDescription& machine, Transfer what, const Spread& spread, double bytes) {
  if (spread.nodes < 2) return {};
  const double latency = machine.among->seconds,
               data = bytes * spread.groups / (machine.among->bytes * machine.link_share);
  const Times ring = over_links(what, spread.nodes, data, latency);
  if (what != Transfer::sum) return ring;
  if (machine.sums_in_network) return {data, 2 * latency};
  const Times tree{2 * data, 2 * depth(spread.nodes) * latency};
  return ring.seconds() < tree.seconds() ? ring : tree;
}

}  // namespace

RankGroup group_along(const Mesh& mesh, Axis axis) {
  return {.ranks = mesh.size(axis), .stride = mesh.stride(axis)};
}

double transfer_seconds(const MachineDescription& machine, Transfer what, const RankGroup& group,
                        double bytes) {
  if (group.ranks < 2) return 0;
  Spread spread = spread_of(machine, group);
  if (what == Transfer::message) {  // only to the next rank, on this node or on another
    const bool leaves = group.stride >= machine.devices_of_node;
    spread = {.on_node = leaves ? 1.0 : 2.0, .nodes = leaves ? 2.0 : 1.0, .groups = spread.groups};
  }
  const Times within = within_node(machine, what, spread.on_node, bytes),
              among = among_nodes(machine, what, spread, bytes);
  return std::max(within.data, among.data) + within.latency + among.latency;
}

double processor_seconds(const MachineDescription& machine, Transfer what, const RankGroup& group,
                         double bytes) {
  if (group.ranks < 2 || !machine.processor_bytes) return 0;
  const auto ranks = static_cast<double>(group.ranks);
  const double passes = what == Transfer::sum                                   ? 2 * along_ring(ranks)
                        : what == Transfer::gather || what == Transfer::scatter ? along_ring(ranks)
                                                                                : 1;
  return passes * bytes / *machine.processor_bytes;
}

}  // namespace trainer
