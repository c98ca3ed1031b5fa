// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/kind.h"

#include <fmt/format.h>

#include "core/data/section.h"

namespace trainer {

void FeatureKind::check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                        Diagnostics& diagnostics) const {
  if (network_shape.size() != 1) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [columns], the columns of numbers of data.format {}, got {} numbers",
                    section.format, network_shape.size()));
  }
}

void SeriesKind::check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                       Diagnostics& diagnostics) const {
  if (network_shape.size() != 2) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [rows, columns], data.table.window.length and the columns of numbers of "
                    "data.format {}, got {} numbers",
                    section.format, network_shape.size()));
  }
}

}  // namespace trainer
