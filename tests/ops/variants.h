// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/engine/planner.h"
#include "core/engine/stored.h"
#include "core/graph/names.h"
#include "core/graph/program.h"
#include "core/passes/pass.h"

// The forms of a sketched program that checks run: differentiated, fused, in a low type.
namespace trainer {

inline const std::string kEntry = entry_name::kTrainStep;

std::string gradient_name(const std::string& parameter);
/// The program with gradients, each of them an output; with a planner also fused, as far as it accepts.
Program differentiated(Program program, const std::vector<Pass>& before, const Planner* planner = nullptr);
/// The passes before differentiation in checks: none, some, all.
std::vector<std::vector<Pass>> variants_of_fusion();
/// Passes, the last of which casts parameters and inputs to bf16 if mixed precision would.
std::vector<Pass> with_bf16(std::vector<Pass> passes);
/// The program with its inputs and parameters of several dimensions, and all results, in another type.
Program stored_as(Program program, DType dtype);
/// Values after a backend has stored them in this type.
std::vector<float> through(const Planner& planner, const std::vector<float>& values, DType dtype);

}  // namespace trainer
