// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "tests/ops/sketch.h"

namespace trainer {

/// Writes a program that ends in Sketch::loss.
using Draft = std::function<void(Sketch&)>;

struct Tolerances {
  double differences = 1e-6;  ///< gradients against finite differences
  double forward = 1e-5;      ///< CPU against reference, outputs
  double gradients = 1e-4;    ///< CPU against reference, gradients
};

/// Compares the gradient of each parameter in the reference backend with central differences of the loss,
/// element by element (a sample of the elements where there are many).
void check_differences(const Draft& draft, uint64_t seed, const Tolerances& tolerances = {});

/// Compares all outputs and gradients of the CPU with the reference's, with and without the optional passes;
/// scratch memory is poisoned, a second run gives the same bits, inputs stay as they were.
void check_cpu(const Draft& draft, uint64_t seed, const Tolerances& tolerances = {});

/// Both, for several seeds.
void check_program(const std::string& name, const Draft& draft, int seeds = 2,
                   const Tolerances& tolerances = {});

}  // namespace trainer
