// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/assemble.h"

namespace trainer {

/// A program that continues sequences of tokens, all at the same position, over one set of weights and
/// caches:
///   decode:  reads next_tokens i32 (N, 1) and first_position, gives the logits (N, 1, V) of what follows
///   prefill: reads tokens i32 (N, P) and first_position; fills the caches and gives nothing
/// Attention appends what it makes of these tokens to its caches (N, S, features) and reads the caches. A
/// prompt goes through prefill, piece by piece, but for its last token, which decode takes. What a piece
/// holds behind the prompt is overwritten before anything sees it. Throws Error (exit 78) where the network
/// gives no logits for each token, or has an operation that joins positions and keeps no cache of them.
Program generation_program(const Recipe& recipe, const SequenceExtents& wanted);

/// Throws Error (exit 78) where generation_program would, without a plan.
void check_generation(const Recipe& recipe);

}  // namespace trainer
