// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/data/source.h"

namespace trainer {

/// How many samples of a split may be unreadable.
struct ErrorBudget {
  double percent = 0;
  std::string split;      ///< the split's key, for the message
  std::string list_file;  ///< where whoever takes the reports lists them, for the message
};

/// A source in which the next readable sample, the first coming after the last, takes the place of one that
/// cannot be read, with its label. Once more than the budget were found it throws Error (exit 65).
std::unique_ptr<DataSource> tolerate_unreadable(std::unique_ptr<DataSource> source,
                                                const ErrorBudget& budget);

}  // namespace trainer
