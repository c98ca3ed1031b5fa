// SPDX-License-Identifier: Apache-2.0
#include "core/passes/table.h"

namespace trainer {

std::optional<Pass> update_pass(const PassOptions& options) {
  if (!options.trains) return std::nullopt;
  return Pass{.name = "update", .help = "append the optimiser", .optional = false, .run = options.update};
}

}  // namespace trainer
