// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/data/format.h"
#include "core/data/tables/keys.h"
#include "core/data/tables/preparation.h"

namespace trainer {

/// Rows that are numbers and categories, of tables.
class FeatureKind final : public RowKind {
 public:
  void declare(Fields& /*fields*/) override {}
  std::string name() const override { return "rows of tables"; }
  void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
             Diagnostics& diagnostics) const override;
};

}  // namespace trainer
