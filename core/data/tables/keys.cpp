// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/keys.h"

#include <utility>

#include "core/data/format.h"

namespace trainer {
namespace {

/// Keys of other columns have no effect: the network reads the text alone.
void check_beside_text(const TableKeys& keys, const OriginOf& origin_of, Diagnostics& diagnostics) {
  const TableKeys usual;
  for (const auto& [is_usual, key] :
       {std::pair{keys.ignore == usual.ignore, "data.table.ignore"},
        std::pair{keys.categorical == usual.categorical, "data.table.categorical"},
        std::pair{keys.missing == usual.missing, "data.table.missing"},
        std::pair{keys.scale == usual.scale, "data.table.scale"},
        std::pair{keys.clip == usual.clip, "data.table.clip"}}) {
    if (!is_usual)
      diagnostics.error(origin_of(key),
                        "is about columns beside data.table.text, which the network does not "
                        "read; remove it");
  }
}

void check_window(const TableKeys& keys, InputKind kind, const OriginOf& origin_of,
                  Diagnostics& diagnostics) {
  const WindowKeys& window = keys.window;
  if (kind != InputKind::series && window.any())
    diagnostics.error(
        origin_of("data.table.window"),
        "makes series of rows; set model.input_kind: series and model.input: [length, columns of "
        "numbers]");
  if (kind == InputKind::series && !window.any())
    diagnostics.error(origin_of("model.input_kind"), "series needs data.table.window");
  if (window.any() && !window.time)
    diagnostics.error(origin_of("data.table.window"), "missing key 'time', the column of times");
  if (window.any() && !window.length)
    diagnostics.error(origin_of("data.table.window"), "missing key 'length', the rows of a window");
  if (keys.missing == TableKeys::kPrevious && !window.any())
    diagnostics.error(
        origin_of("data.table.missing"),
        "previous is for series (data.table.window), whose rows have an order; use mean or median");
}

}  // namespace

void WindowKeys::declare(Fields& fields) {
  fields.add("time", &time, "column of the times: numbers, or dates of ISO 8601 such as 2013-01-05T14:00");
  fields.add("by", &by, "columns whose values name a row's series, such as a station; none: one series")
      .or_one();
  fields.add("length", &length, "rows of a window, which the network reads").at_least(1).at_most(1000000);
  fields.add("horizon", &horizon, "rows from the last one of a window to the row of its target")
      .at_least(1)
      .at_most(1000000)
      .absent_as("1");
  fields.add("stride", &stride, "rows from the beginning of a window to that of the next")
      .at_least(1)
      .at_most(1000000)
      .absent_as("1");
}

void TableKeys::declare(Fields& fields) {
  fields
      .add("target", &target,
           "column to predict: with loss cross_entropy its texts are classes, with mse, l1 or huber it has "
           "numbers. Several columns of numbers, or for binary_cross_entropy of 0 and 1")
      .or_one();
  fields.add("ignore", &ignore, "columns that the network does not read").or_one();
  fields
      .add("categorical", &categorical,
           "columns that have categories. auto: those with texts; names: these, and those with texts")
      .or_one()
      .absent_as("[auto]");
  fields
      .add("missing", &missing,
           "value in place of a missing number, of the training rows: mean, median; previous: of a window, "
           "the "
           "last value before in its series; error: refuse it")
      .one_of({"mean", "median", kPrevious, "error"})
      .absent_as("mean");
  fields
      .add("scale", &scale,
           "scale of each column of numbers, from the training rows: standard: mean 0 and deviation 1; "
           "min_max: from 0 to 1")
      .one_of({"standard", "min_max", "none"})
      .absent_as("standard");
  fields
      .add("clip", &clip,
           "clip each column of numbers to the quantiles `clip` and 1 - `clip` of the training rows; 0: none")
      .at_least(0)
      .below(0.5)
      .absent_as("0");
  fields
      .add("empty_target", &empty_target,
           "rows without a target. error: refuse them; drop: leave them out. Windows without a target are "
           "always "
           "left out")
      .one_of({"error", "drop"})
      .absent_as("error");
  fields
      .add("text", &text,
           "column of texts that the network reads as tokens of data.tokenizer, for model.input_kind: text. "
           "Of "
           "longer ones it reads the first tokens, shorter ones are padded")
      .absent_as("null");
  fields
      .section("window", "series in time: samples are windows of rows, for model.input_kind: series",
               [this](Fields& section) { window.declare(section); })
      .absent_if_unset();
}

void TableKeys::check(InputKind kind, const OriginOf& origin_of, Diagnostics& diagnostics) const {
  if (target.empty())
    diagnostics.error(origin_of("data.table"), "missing key 'target', the column to predict");
  check_window(*this, kind, origin_of, diagnostics);
  if (text) check_beside_text(*this, origin_of, diagnostics);
  if ((kind == InputKind::text) != text.has_value())
    diagnostics.error(origin_of(text ? "data.table.text" : "data.table"),
                      text ? "is read as tokens, for model.input_kind: text and model.input: [tokens]"
                           : "missing key 'text', the column that model.input_kind: text reads");
}

}  // namespace trainer
