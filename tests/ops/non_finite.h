// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <typeindex>

#include "tests/ops/harness.h"

namespace trainer {

/// What checks with values that are not finite went through.
struct NonFiniteCoverage {
  std::set<std::type_index> operations, refused;  ///< refused: by the backend's planner
  std::set<std::string> forms;                    ///< an operation, which operands it has, and its switches
  std::set<std::string> implementations;          ///< as plans print them, with the algorithm
  std::set<std::string> layouts;
  int64_t runs = 0;
};

/// How much a check plants: in an emulated kernel, which is slow, one NaN and one infinity into each input,
/// and only in the program that fusion has gone over.
enum class Planting { thorough, brief };

/// Plants NaN, infinity and minus infinity in each floating input and parameter of the draft, one value at a
/// time, at a few places. Runs the program in each form that fusion gives it, and compares all outputs and
/// gradients with the reference's of the plain program. NaN must be where the reference has NaN. If a
/// planted infinity leaves the reference without a number, the backend must not have a number either. Numbers
/// must agree. Also checks the reference: an output that follows a number must follow a NaN in its place.
void check_non_finite(const Backend& backend, const Draft& draft, uint64_t seed, NonFiniteCoverage& coverage,
                      Planting planting = Planting::thorough);
/// The same of a program in mixed precision with bf16.
void check_non_finite_bf16(const Backend& backend, const Draft& draft, uint64_t seed,
                           NonFiniteCoverage& coverage);
/// The same of what check_narrow runs.
void check_non_finite_narrow(const Backend& backend, const Draft& draft, DType dtype, uint64_t seed,
                             NonFiniteCoverage& coverage, Planting planting = Planting::thorough);

/// Whether a tensor of the draft has more: such are there for sums of several blocks, and take most of the
/// time.
bool has_more_elements(const Draft& draft, int64_t elements);

/// A line with all counts.
std::string summary(const NonFiniteCoverage& coverage);

}  // namespace trainer
