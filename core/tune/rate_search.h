// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/host/stop.h"
#include "core/recipe/recipe.h"
#include "core/session/device.h"

namespace trainer {

/// The recipe's network, trained from its first weights with these learning rates in place of the recipe's,
/// one for each step, until it diverges. Returns the losses. Nothing is written. Throws Error as a run does;
/// exit 75 when asked to stop.
std::vector<double> losses_at_rates(const std::shared_ptr<const Recipe>& recipe,
                                    const std::vector<float>& rates, const OpenDevice& open_device,
                                    const StopSignals& signals, Log& log);

}  // namespace trainer
