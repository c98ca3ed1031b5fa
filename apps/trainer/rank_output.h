// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "core/session/membership.h"
#include "core/storage/atomic_file.h"

namespace trainer {

/// The part of the ranks of a command: `work` returns its exit code. An error of one ends them all. Alone,
/// `work` is just called.
int run_as_rank(const Membership& membership, const std::function<int()>& work);

/// Joins what the ranks of a command write, in the order of the ranks. Each calls it once. `produce` gives a
/// rank's bytes to the sink that it gets. Rank 0 passes on its own to `sink` as they come, then those of the
/// others, which keep theirs in an unnamed temporary file meanwhile. Throws Error (exit 74) if that is full.
void write_in_order(const Membership& membership, const ByteSink& sink,
                    const std::function<void(const ByteSink&)>& produce);

/// The sum of a number over all ranks.
int64_t sum_over_ranks(const Membership& membership, int64_t number);

}  // namespace trainer
