// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "core/recipe/recipe.h"

namespace trainer {

/// Masks are chosen on one rank's host, and scales of weights on one rank's device, which must have each
/// weight as a whole, and so must the teacher's layers be.
void Recipe::check_compression(Diagnostics& diagnostics) const {
  compression.check([this](const std::string& key) { return origin_of(key); }, diagnostics);
  for (const auto& [divides, key] : {std::pair{parallelism.tensor > 1, "parallelism.tensor"},
                                     std::pair{parallelism.pipeline > 1, "parallelism.pipeline"}}) {
    if (!divides || loss->teacher() == nullptr) continue;
    diagnostics.error(
        origin_of("loss.teacher"),
        fmt::format("every rank computes a whole teacher, which {} does not allow; remove one of "
                    "them",
                    key));
  }
  if (loss->teacher() != nullptr && model.kind() == InputKind::text) {
    diagnostics.error(origin_of("loss.teacher"),
                      "a teacher would read the padding of texts; choose another loss");
  }
  if (loss->teacher() != nullptr && data.tokens.mask_documents) {
    diagnostics.error(origin_of("data.mask_documents"),
                      "the teacher would attend across documents; write false, or choose another loss");
  }
  for (const auto& [is_asked, way] : {std::pair{compression.prunes(), "compression.prune"},
                                      std::pair{compression.quantize.is_asked(), "compression.quantize"}}) {
    for (const auto& [divides, key] :
         {std::pair{parallelism.tensor > 1, "parallelism.tensor"},
          std::pair{parallelism.pipeline > 1, "parallelism.pipeline"},
          std::pair{parallelism.shard_parameters.flag, "parallelism.shard_parameters"}}) {
      if (!is_asked || !divides) continue;
      diagnostics.error(
          origin_of(way),
          fmt::format("needs whole weights on every rank, which {} divides; remove one of them", key));
    }
  }
}

}  // namespace trainer
