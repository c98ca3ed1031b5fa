// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/communicator.h"

namespace trainer {

// What ranks do together outside of steps. Every rank calls the same, in the same order. Within `make` and
// `work` nobody communicates, so that a failure leaves no rank waiting.

/// Runs `make` on rank 0 alone and gives its text to all. What it throws, all throw: the others as PeerError
/// with its exit code.
std::string from_first(Communicator& ranks, const std::function<std::string()>& make);

/// Runs `work` on every rank. If it throws on some, they rethrow it, and all others throw PeerError with
/// the exit code of the first of them.
void together(Communicator& ranks, const std::function<void()>& work);

/// The text of every rank, by its number.
std::vector<std::string> texts_of_all(Communicator& ranks, const std::string& own);

/// The text of the first rank that has one, with its number; nothing if none has.
struct RankText {
  int64_t rank;
  std::string text;
};
std::optional<RankText> first_text(Communicator& ranks, const std::optional<std::string>& own);

}  // namespace trainer
