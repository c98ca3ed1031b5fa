// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/engine/backend.h"
#include "core/engine/machine_description.h"
#include "core/engine/process_group.h"

namespace trainer {

/// What sums of these ranks take, as machine descriptions have it.
struct LinkTimes {
  Link link;  ///< of a ring
  /// Bytes a second that the rank's own processor moves and adds; nothing if it computes meanwhile.
  std::optional<double> processor_bytes;
};

/// Measures sums along an axis of the group's mesh, on the devices that the backend has joined; `beside`:
/// groups that use the same link at once. Every rank calls it. Takes a few seconds, and 200 MB of memory.
LinkTimes measure_links(ProcessGroup& group, const Backend& backend, Axis axis, int64_t beside = 1);

}  // namespace trainer
