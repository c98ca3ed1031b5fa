// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/session/timing.h"

namespace trainer {

/// The times of a job, and the device that it ran on.
struct MeasuredTime {
  std::string device;  ///< cpu or cuda
  std::map<std::string, std::string> facts;
  Timing timing;
};

/// The report as text, and as JSON with the same content. `measured` has one element for each batch size;
/// `purpose`: "train", "predict" or "generate".
std::string measured_text(const std::vector<MeasuredTime>& measured, const std::string& purpose,
                          int64_t iterations);
std::string measured_json(const std::vector<MeasuredTime>& measured, const std::string& purpose,
                          int64_t iterations);

}  // namespace trainer
