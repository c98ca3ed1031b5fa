// SPDX-License-Identifier: Apache-2.0
#include "core/data/source.h"

#include <fmt/format.h>

namespace trainer {

std::string AllowedLabels::text() const {
  const std::string below = fmt::format("a label below {}, the network's number of classes", classes);
  return ignored ? fmt::format("{}, or {}, loss.ignore_index", below, *ignored) : below;
}

}  // namespace trainer
