// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/attention/use.h"

namespace trainer::cpu::attention {

/// Whether lanes of queries would be mostly empty, as when tokens are generated one by one.
bool has_few_queries(const Use& use);
/// For these: one query at a time against keys and values as stored, whose features fill the lanes.
std::unique_ptr<Forward> make_forward_of_few(const Use& use);

}  // namespace trainer::cpu::attention
