// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

constexpr const char* kVersion = "0.1.0";

}  // namespace trainer
