// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/data/source.h"
#include "core/engine/planner.h"
#include "core/passes/pass.h"
#include "core/recipe/run_spec.h"

namespace trainer {

/// Known properties of both splits' samples; nothing if files are missing.
struct SplitInfos {
  const std::optional<SourceInfo>& train;
  const std::optional<SourceInfo>& validation;
};

/// The samples that data.cache: device puts into the device's memory, by the entry of the forward program
/// that reads them. Throws Error (exit 78) for unsupported settings, and if files are missing whose
/// size must be known.
std::map<std::string, SampleSet> cached_samples(const RunSpec& run, const Planner& planner,
                                                const SplitInfos& infos);

}  // namespace trainer
