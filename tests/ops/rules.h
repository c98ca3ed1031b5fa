// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/update_rules.h"

namespace trainer {

template <class Visit, class... Rules>
void for_each_rule(const Visit& visit, const std::variant<Rules...>*) {
  (visit(Rules{}), ...);
}

/// Calls visit(rule) with each optimiser's rule with its defaults.
template <class Visit>
void for_each_rule(const Visit& visit) {
  for_each_rule(visit, static_cast<const update::Rule*>(nullptr));
}

}  // namespace trainer
