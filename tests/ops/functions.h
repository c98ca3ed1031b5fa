// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <variant>

#include "core/graph/ops/elementwise.h"

namespace trainer {

/// Calls visit(functor) for every element-wise function.
template <class Visit, class... Functors>
void for_each_functor(const Visit& visit, const std::variant<Functors...>*) {
  (visit(Functors{}), ...);
}
template <class Visit>
void for_each_functor(const Visit& visit) {
  for_each_functor(visit, static_cast<const elementwise::Function*>(nullptr));
}

}  // namespace trainer
