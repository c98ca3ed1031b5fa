// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/kind.h"

#include <fmt/format.h>

#include <utility>

#include "core/data/section.h"
#include "core/data/tokens/formats.h"

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

void TextKind::check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                     Diagnostics& diagnostics) const {
  if (network_shape.size() != 1) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [tokens], the length to which texts are cut or padded, got {} numbers",
                    network_shape.size()));
  }
  for (const auto& [is_given, key] : {std::pair{section.tokens.end_of_text.has_value(), "data.end_of_text"},
                                      std::pair{section.tokens.mask_documents, "data.mask_documents"}}) {
    if (is_given)
      diagnostics.error(origin_of(key), "is for windows of a long text, and each row has a text; remove it");
  }
  check_tokenizer(section, origin_of, diagnostics);
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
