// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/process_group.h"

namespace trainer {

// Collectives between steps. Every rank calls the same ones, in the same order. `make` and `work` call
// no others, so that a failure leaves no rank waiting.

/// Runs `make` on rank 0 alone and gives its text to all ranks. If it throws, all ranks throw: the others a
/// PeerError with its exit code.
std::string broadcast_from_rank_0(ProcessGroup& group, const std::function<std::string()>& make);

/// Gives all ranks the text of one.
void broadcast_text(ProcessGroup& group, std::string& text, int64_t from);

/// Runs `work` on every rank. If it throws on some, they rethrow it, and all others throw PeerError with
/// the exit code of the first of them.
void run_on_all(ProcessGroup& group, const std::function<void()>& work);

/// Waits until every rank has called it.
void barrier(ProcessGroup& group);

/// The texts of all ranks, by rank.
std::vector<std::string> all_gather(ProcessGroup& group, const std::string& own);

/// The text of the first rank that has one, with that rank; nothing if none has.
struct RankText {
  int64_t rank;
  std::string text;
};
std::optional<RankText> first_text(ProcessGroup& group, const std::optional<std::string>& own);

}  // namespace trainer
