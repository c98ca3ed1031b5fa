// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/step/forward.h"

namespace trainer {

/// Adds two entries that continue sequences of tokens, all at the same position, over one set of weights and
/// caches:
///   decode:  reads next_tokens i32 (N, 1) and first_position, gives the logits (N, 1, V) of the next token
///   prefill: reads tokens i32 (N, P) and first_position; fills the caches and gives nothing
/// Attention appends keys and values of these tokens to its caches (N, S, features) and reads the caches. A
/// prompt goes through prefill, piece by piece, except for its last token, which decode takes. Positions of a
/// piece after the end of the prompt are overwritten before anything reads them. Throws Error (exit 78) if
/// the network gives no logits for each token, or has an operation that joins positions and keeps no cache of
/// them.
void add_generation(Program& program, const ForwardSpec& spec, Logits& logits);

}  // namespace trainer
