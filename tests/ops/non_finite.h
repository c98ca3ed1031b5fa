// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <typeindex>

#include "tests/ops/harness.h"

namespace trainer {

/// Counts of the checks with values that are not finite.
struct NonFiniteCoverage {
  std::set<std::type_index> operations, refused;  ///< refused: by the backend's planner
  std::set<std::string> forms;                    ///< an operation, its present operands, and its switches
  std::set<std::string> implementations;          ///< as plans print them, with the algorithm
  std::set<std::string> layouts;
  int64_t runs = 0;
};

/// The amount of plants in a check: in an emulated kernel, which is slow, one NaN and one infinity into each
/// input, and only in the fused program.
enum class Planting { thorough, brief };

/// Plants NaN, infinity and minus infinity in each floating input and parameter of the draft, one value at a
/// time, at a few places. Runs the program in each of its fused forms, and compares all outputs and gradients
/// with the reference's of the plain program. NaN must be at the reference's positions of NaN. If a
/// planted infinity leaves the reference without a number, the backend must not have a number either. Numbers
/// must agree. Also checks the reference: an output that depends on a number must be NaN if the number is.
void check_non_finite(const Backend& backend, const Draft& draft, uint64_t seed, NonFiniteCoverage& coverage,
                      Planting planting = Planting::thorough);
/// The same for a program in mixed precision with bf16.
void check_non_finite_bf16(const Backend& backend, const Draft& draft, uint64_t seed,
                           NonFiniteCoverage& coverage);
/// The same for the programs of check_narrow.
void check_non_finite_narrow(const Backend& backend, const Draft& draft, DType dtype, uint64_t seed,
                             NonFiniteCoverage& coverage, Planting planting = Planting::thorough);

/// Whether a tensor of the draft has more: large ones are for sums of several blocks, and take most of the
/// time.
bool has_more_elements(const Draft& draft, int64_t elements);

/// A line with all counts.
std::string summary(const NonFiniteCoverage& coverage);

}  // namespace trainer
