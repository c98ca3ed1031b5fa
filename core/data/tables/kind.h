// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/data/format.h"

namespace trainer {

/// Rows that are numbers and categories, of tables.
class FeatureKind final : public RowKind {
 public:
  void declare(Fields& /*fields*/) override {}
  std::string name() const override { return "rows of tables"; }
  void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
             Diagnostics& diagnostics) const override;
};

/// Rows that are the tokens of one column's text each.
class TextKind final : public RowKind {
 public:
  void declare(Fields& /*fields*/) override {}
  std::string name() const override { return "texts of tables"; }
  void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
             Diagnostics& diagnostics) const override;
};

/// Windows of rows, of series.
class SeriesKind final : public RowKind {
 public:
  void declare(Fields& /*fields*/) override {}
  std::string name() const override { return "windows of tables"; }
  void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
             Diagnostics& diagnostics) const override;
};

}  // namespace trainer
