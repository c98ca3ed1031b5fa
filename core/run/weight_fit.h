// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/program.h"
#include "core/run/weight_names.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// Names that keep their first values whatever a file has for them, as patterns, and the place of these; and
/// names that belong together.
struct Replaced {
  std::vector<std::string> patterns;
  Origin origin;
  std::string head = {};  ///< a pattern that counts only if the file does not fit it
  TiedNames tied = {};    ///< of the network
};

/// Throws Error (exit 65) with the tensors that a file lacks, has in another shape, or has too many for a
/// network with these weights. Returns the patterns of what is not loaded: `replaced`, and the head if it
/// does not fit. `may_lack`: a missing tensor is no error.
std::vector<std::string> require_fit(const std::vector<const Tensor*>& weights,
                                     const std::filesystem::path& path, const SafetensorsFile& file,
                                     const WeightNames& names, const Replaced& replaced, bool may_lack);

}  // namespace trainer
