// SPDX-License-Identifier: Apache-2.0
#include "core/passes/table.h"

namespace trainer {

std::vector<Pass> passes_at(Place place, const PassSettings& settings) {
  std::vector<Pass> passes;
#define TRAINER_ADD_ROW(its_place, function)                                               \
  if (place == Place::its_place) {                                                         \
    if (std::optional<Pass> pass = function(settings)) passes.push_back(std::move(*pass)); \
  }
  TRAINER_PASSES(TRAINER_ADD_ROW)
#undef TRAINER_ADD_ROW
  return passes;
}

}  // namespace trainer
