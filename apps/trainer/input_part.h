// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// A run of consecutive inputs: the number of the first, from 0 on, and how many there are.
struct PartRange {
  int64_t first = 0, count = 0;
};

/// One of several parts of a list of inputs, of about the same size, in the list's order.
struct InputPart {
  int64_t number = 1, parts = 1;  ///< numbers begin at 1

  /// That part of `inputs` inputs; each input is in exactly one part.
  PartRange of(int64_t inputs) const;
};

/// Reads `I/N`. Throws Error (exit 64) unless 1 <= I <= N.
InputPart parse_part(const std::string& text);

}  // namespace trainer
