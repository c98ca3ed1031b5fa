// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/error_budget.h"
#include "core/data/images/source.h"

namespace trainer {

/// A source in which the next readable sample, the first coming after the last, takes the place of one that
/// cannot be read, with its label. Once more than the budget were found it throws Error (exit 65).
std::unique_ptr<ImageSource> tolerate_unreadable(std::unique_ptr<ImageSource> source,
                                                 const ErrorBudget& budget);

}  // namespace trainer
