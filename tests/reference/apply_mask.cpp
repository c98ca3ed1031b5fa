// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/apply_mask.h"

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void apply_mask(const Call& call) {
  for (int64_t i = 0, count = call.count_out(ApplyMask::kY); i < count; ++i) {
    const bool is_kept = call.in<uint8_t>(ApplyMask::kMask)[i] != 0;
    call.out(ApplyMask::kY)[i] = is_kept ? call.in(ApplyMask::kX)[i] : 0;
  }
}

}  // namespace

void add_apply_mask(Loops& loops) {
  loops[typeid(ApplyMask)] = apply_mask;
}

}  // namespace trainer::reference
