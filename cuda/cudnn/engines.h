// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cudnn/descriptor.h"
#include "cuda/cudnn/graph.h"

namespace trainer::cuda::cudnn {

/// One way in which the library offers to run a graph.
struct EngineChoice {
  std::string text;  ///< "e34:2=13:14=3": the engine, and its knobs as type=value
  int64_t workspace_bytes = 0;
  bool fallback = false;  ///< from the list of all engines that run, perhaps slowly
  bool tensor_cores = false;
};

/// The device that the library's answers are for: a real one through a handle, or a described one through its
/// properties.
struct Subject {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

/// A device's properties from cuDNN's JSON of them. Throws Error if the library refuses it.
Descriptor described_device(const std::string& json);

/// The library's heuristics for the graph, best first, then its fallbacks; without engines that round f32 to
/// tf32 or vary from run to run if the graph forbids it. Empty: this graph cannot run there.
std::vector<EngineChoice> engine_choices(const Graph& graph, const Subject& subject);

/// A plan ready to run on the device of `handle`; Error says why the library refuses it.
Descriptor execution_plan(const Graph& graph, const std::string& choice, cudnnHandle_t handle);
/// The same from the library's text of such a plan.
Descriptor execution_plan(const std::string& text, cudnnHandle_t handle);

}  // namespace trainer::cuda::cudnn
