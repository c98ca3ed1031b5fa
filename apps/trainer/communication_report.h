// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/recipe/job.h"

namespace trainer {

/// What the ranks of a step add up, for people: bytes, and where it begins in the backward part. "" if a
/// process is alone.
std::string communication_text(const Job& job);

/// The same as keys of a report: "buckets", "statistics".
void add_communication(const Job& job, Json& report);

}  // namespace trainer
