// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/data/images/source.h"

namespace trainer {

/// For readers that take files: writes one in a folder of this process's own, and returns its path.
std::string put_file(const std::string& name, std::span<const uint8_t> bytes);

/// Reads every sample of the source from `open`. Samples may be unreadable and files refused as data (exit
/// 65); anything else ends the process.
void read_or_refuse(const std::function<std::unique_ptr<ImageSource>()>& open);

}  // namespace trainer
