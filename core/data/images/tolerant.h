// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/error_budget.h"
#include "core/data/images/source.h"

namespace trainer {

/// A source that replaces an unreadable sample by the next readable one, with its label; the first follows
/// the last. Throws Error (exit 65) beyond the budget.
/// Training draws samples by `weights`, if there are any.
std::unique_ptr<ImageSource> tolerate_unreadable(std::unique_ptr<ImageSource> source,
                                                 const ErrorBudget& budget, std::vector<double> weights = {});

}  // namespace trainer
