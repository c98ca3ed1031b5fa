// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/engine/backend.h"
#include "tests/ops/sketch.h"

namespace trainer {

/// Writes a program that ends in Sketch::loss.
using Draft = std::function<void(Sketch&)>;

struct Tolerances {
  double differences = 1e-6;  ///< gradients against finite differences
  double forward = 1e-5;      ///< a backend against the reference, outputs
  double gradients = 1e-4;    ///< a backend against the reference, gradients
  bool repeats = true;        ///< a second run has the same bits; false: a library may add in any order
};

/// Compares the gradient of each parameter in the reference backend with central differences of the loss. It
/// does so element by element (a sample of the elements if there are many).
void check_differences(const Draft& draft, uint64_t seed, const Tolerances& tolerances = {});

/// Compares all outputs and gradients of a backend with the reference's, with and without the optional
/// passes; scratch memory is poisoned, a second run gives bitwise identical results (but see `repeats`),
/// inputs stay unchanged.
void check_backend(const Backend& backend, const Draft& draft, uint64_t seed,
                   const Tolerances& tolerances = {});
/// The same for the CPU.
void check_cpu(const Draft& draft, uint64_t seed, const Tolerances& tolerances = {});
/// The same for a backend that stores inputs and parameters of two or more dimensions, and all results from
/// them, in a narrow floating type. The reference gets their rounded values.
void check_narrow(const Backend& backend, const Draft& draft, DType dtype, uint64_t seed,
                  const Tolerances& tolerances);

/// check_differences in mixed precision, if the reference rounds nothing: gradients through casts.
void check_bf16_differences(const Draft& draft, uint64_t seed, const Tolerances& tolerances = {});

/// Compares the CPU in bf16 with the reference that rounds stored values. The CPU's distance from it may be
/// `slack` times the effect of rounding: sums in another order end in other roundings.
void check_bf16(const Draft& draft, uint64_t seed, double slack = 1);

/// All of them, those in f32 for several seeds.
void check_program(const std::string& name, const Draft& draft, int seeds = 2,
                   const Tolerances& tolerances = {});

}  // namespace trainer
