// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer {

/// A connection: bytes a second in one direction, and seconds from the start of a transfer to its first byte.
struct Link {
  double bytes = 0;
  double seconds = 0;
};

/// The share of a link's rate that transfers reach, of all machines. The published runs to which it may be
/// fitted (scripts/scaling.py) hardly depend on it.
constexpr double kLinkShare = 0.8;

/// Equal nodes with equal devices, so that a run on them can be predicted without them.
struct MachineDescription {
  std::string name;             ///< "DGX H100"
  std::string device;           ///< as device.model takes it, or "cpu"; others have no rates
  int64_t devices_of_node = 1;  ///< ranks on a node
  Link within = {};             ///< of one device, to the others of its node
  std::optional<Link> among =
      {};  ///< of one node, all its network cards together; nothing: there is only one node
  bool sums_in_network = false;  ///< switches add up
  double link_share = kLinkShare;
  /// Bytes a second that a rank's own processor moves and adds in a sum, in which time it computes nothing
  /// else; nothing: devices transfer beside their computation.
  std::optional<double> processor_bytes = {};
  std::optional<int64_t> node_bytes = {};  ///< memory of a node whose devices use it
  std::optional<double> node_watts = {};   ///< of a whole node at work
};

/// Reads a file of configs/machines/. Every rate needs its origin in `sources`. Throws Error (exit 78) with
/// `file` and the key that is missing or wrong.
MachineDescription read_machine_description(const std::string& text, const std::string& file);

}  // namespace trainer
