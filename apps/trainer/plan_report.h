// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/trainer/arguments.h"
#include "core/recipe/job.h"

namespace trainer {

/// One layer of the network as a plan shows it.
struct LayerRow {
  std::string name;  ///< as in parameters' names
  std::string type;  ///< conv2d, relu, …
  Shape output;      ///< with the micro-batch in front
  int64_t parameters = 0;
  double forward_flops = 0;  ///< of one micro-batch
  int64_t output_bytes = 0;
};

std::vector<LayerRow> layer_rows(const RunSpec& spec);

/// "[3, 224, 224]", as files and recipes write it.
std::string shape_text(const Shape& shape);

/// The report as text, and as JSON with the same content.
std::string plan_text(const Planner& planner, const Job& job, const Arguments& arguments);
std::string plan_json(const Planner& planner, const Job& job, const Arguments& arguments);

}  // namespace trainer
