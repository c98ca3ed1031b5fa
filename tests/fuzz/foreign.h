// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "core/import/foreign_weights.h"

namespace trainer {

/// Copies every tensor. The file may be refused as data (exit 65), when it is opened or when it is read;
/// anything else, and a tensor of another number of bytes than it claims, ends the process.
void copy_or_refuse(const std::function<std::unique_ptr<ForeignWeights>()>& open);

}  // namespace trainer
