// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/host/findings.h"

namespace trainer {

/// Findings about the PCIe links and NUMA nodes of GPUs, given by their bus IDs ("0000:3b:00.0") in the order
/// of their numbers, from files below `root`. `processors` are those that this process may use. What the
/// files do not say is not judged: a width always is, a generation only by what the slot allows, since an
/// idle GPU lowers its link's.
std::vector<Finding> gpu_findings(const std::vector<std::string>& bus_ids,
                                  const std::vector<int64_t>& processors,
                                  const std::filesystem::path& root = "/");

}  // namespace trainer
