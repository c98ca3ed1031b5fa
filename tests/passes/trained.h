// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/step/step.h"

namespace trainer {

/// Samples of a step of trained().
inline constexpr int64_t kRowsOfTrained = 4;

/// All that a step of the program reads.
std::map<std::string, std::vector<float>> made_up_inputs(const Program& program);

/// Every parameter, moment, statistic and sum after three steps of SGD on made-up samples, with the losses,
/// by the reference; and the program's text. The network is text, as in recipes.
std::map<std::string, std::vector<double>> trained(const std::string& network, StepSpec spec,
                                                   std::string* text = nullptr);

/// Checks that training with the options gives the same results as without the planner in them, by another
/// program.
void check_same_as_without_planner(const std::string& network, const StepSpec& spec);

}  // namespace trainer
