// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/cases.h"
#include "tests/ops/attention.h"

namespace trainer {
namespace {

/// Lengths and sizes around a tile (64), an octet and a thread's four rows; every feature at least once with
/// several tiles of keys. Small otherwise: a tile is a lot for the emulation.
const std::vector<AttentionCase> kAttentionCases = {
    {.samples = 2, .heads = 3, .size = 5, .constant = true},
    {.samples = 2, .queries = 3, .heads = 2, .size = 1},
    {.queries = 31, .heads = 2, .size = 33, .causal = true, .packed = true},
    {.queries = 64, .heads = 1, .size = 8},
    {.samples = 2, .queries = 65, .heads = 2, .kv_heads = 1, .size = 7, .causal = true},
    {.queries = 67, .heads = 3, .kv_heads = 1, .size = 9, .packed = true, .dropout = 0.3},
    {.queries = 130, .heads = 1, .size = 4, .causal = true, .window = 5},
    {.queries = 70, .heads = 1, .size = 4, .causal = true, .window = 65, .scale = 0.7},
    {.queries = 70, .heads = 1, .size = 4, .causal = true, .window = 9, .packed = true, .documents = true},
    {.samples = 2, .queries = 66, .heads = 1, .size = 3, .documents = true, .dropout = 0.2},
    {.samples = 2,
     .queries = 1,
     .keys = 130,
     .heads = 4,
     .kv_heads = 2,
     .size = 8,
     .causal = true,
     .first = 127},
    {.queries = 5, .keys = 70, .heads = 2, .size = 8, .first = 3},
    {.queries = 3, .heads = 1, .size = 64},
    {.queries = 5, .heads = 1, .size = 72, .causal = true},
    {.queries = 4, .heads = 2, .kv_heads = 1, .size = 128, .packed = true},
    {.queries = 3, .heads = 1, .size = 133, .causal = true},
    {.queries = 2, .heads = 1, .size = 256, .dropout = 0.5},
};

}  // namespace

void add_attention_cases(std::vector<KernelCase>& cases) {
  for (const AttentionCase& one : kAttentionCases)
    cases.push_back({to_string(one), [one](Sketch& sketch) { draft_attention(sketch, one); }});
}

}  // namespace trainer
