// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "tests/cuda_standin/dnn.h"
#include "tests/cuda_standin/dnn_steps.h"
#include "tests/cuda_standin/runtime.h"

// Engines that all compute the same but one, and differ in difficulties for callers of cuDNN.

namespace trainer::standin {
namespace {

struct Engine {
  int64_t number;
  int64_t workspace;
  double seconds;       ///< according to its notes
  bool fuses;           ///< also runs the operations after the convolution, and graphs without one
  bool backward_only;   ///< is offered for gradients only
  bool is_fallback;     ///< is in the second list
  bool can_be_planned;  ///< else the heuristics offer it, and its plan is refused
  bool can_run;         ///< else its plan fails when it runs
  std::vector<cudnnBackendNumericalNote_t> notes;
};

/// This engine's configuration does not answer queries about its engine.
constexpr int64_t kSilent = 8;

/// The fastest of all. Its gradients of weights are zero if their features are not a multiple of eight;
/// elsewhere it is not offered. An engine of cuDNN 9.19 is wrong there.
constexpr int64_t kWrong = 9;

/// In the order of the heuristics.
const std::vector<Engine>& engines() {
  static const std::vector<Engine> all{
      {kSilent, 0, 1e-3, false, false, false, true, true, {}},
      {6, 0, 1e-3, false, false, false, false, true, {}},
      {1, 1 << 20, 2e-3, false, false, false, true, true, {}},
      {3, 1000, 2e-3, true, false, false, true, true, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
      {2, 0, 1e-3, false, false, false, true, true, {}},
      {4, 4096, 3e-3, false, true, false, true, true, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
      {7, 256, 1e-3, false, false, false, true, false, {}},
      {kWrong, 0, 1e-4, false, true, false, true, true, {}},
      {5, 1 << 16, 5e-3, true, false, true, true, true, {}}};
  return all;
}

const Engine& engine_of(int64_t number) {
  const auto found = std::find_if(engines().begin(), engines().end(),
                                  [&](const Engine& engine) { return engine.number == number; });
  if (found == engines().end())
    throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("there is no engine {}", number)};
  return *found;
}

bool takes(const Engine& engine, const Graph& graph) {
  if (engine.number == kWrong &&
      (graph.direction != Direction::backward_weights || graph.y.shape[1] % 8 == 0))
    return false;
  // If engines cannot be tried, the heuristics' first must be right.
  if (!engine.can_be_planned && graph.stride[0] == 1) return false;
  return (engine.fuses || (graph.rest.empty() && !graph.sums)) &&
         !(engine.backward_only && graph.direction == Direction::forward);
}

bool takes(const Engine& engine, const Object& operations) {
  return has_steps(operations) ? engine.fuses : takes(engine, graph_of(operations));
}

ObjectPointer finished(Object object) {
  object.is_finalized = true;
  return std::make_shared<Object>(std::move(object));
}

ObjectPointer knob(cudnnBackendKnobType_t type, int64_t value) {
  Object made{.type = CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR};
  made.set<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, {type});
  made.set<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, {value});
  return finished(std::move(made));
}

ObjectPointer configuration(const Engine& engine, const Object& operations) {
  Object runs{.type = CUDNN_BACKEND_ENGINE_DESCRIPTOR};
  runs.set<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, {engine.number});
  runs.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {std::make_shared<Object>(operations)});
  if (engine.number != kSilent)
    runs.set(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, engine.notes);
  Object made{.type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR};
  made.set(CUDNN_ATTR_ENGINECFG_ENGINE, {finished(std::move(runs))});
  made.set<int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, {engine.workspace});
  if (engine.number == 1)
    made.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
             {knob(CUDNN_KNOB_TYPE_TILE_SIZE, 13), knob(CUDNN_KNOB_TYPE_STAGES, 3)});
  return finished(std::move(made));
}

/// The tensor's address, if it is as the graph promised.
void* address_of(const Images& tensor, const std::map<int64_t, void*>& tensors) {
  const auto found = tensors.find(tensor.uid);
  if (found == tensors.end())
    throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("no address of tensor {}", tensor.uid)};
  if (reinterpret_cast<uintptr_t>(found->second) % static_cast<uintptr_t>(tensor.alignment) != 0) {
    refuse(fmt::format("cuDNN: tensor {} is aligned to less than was promised", tensor.uid));
    throw Refusal{CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, last_refusal()};
  }
  return found->second;
}

size_t bytes_of(const Images& tensor) {
  return static_cast<size_t>(tensor.count()) * (tensor.type == CUDNN_DATA_FLOAT ? 4 : 2);
}

/// Inputs and outputs of a run.
std::vector<Range> ranges_of(const Graph& graph, const std::map<int64_t, void*>& tensors) {
  std::vector<Images> used{graph.x, graph.w, graph.y, graph.result};
  for (const Pointwise& step : graph.rest) {
    if (step.other) used.push_back(*step.other);
  }
  if (graph.sums) used.insert(used.end(), graph.sums->begin(), graph.sums->end());
  std::vector<Range> ranges;
  for (const Images& tensor : used) {
    if (!tensor.is_virtual) ranges.push_back({address_of(tensor, tensors), bytes_of(tensor)});
  }
  return ranges;
}

/// The work of a plan when its turn comes, and its memory.
struct Run {
  std::function<void()> compute;
  std::vector<Range> ranges;
};

Run run_of(const Object& operations, const std::map<int64_t, void*>& tensors) {
  if (!has_steps(operations)) {
    const Graph graph = graph_of(operations);
    return {[=] { convolve(graph, tensors); }, ranges_of(graph, tensors)};
  }
  const StepsOfGraph steps = steps_of(operations);
  return {[=, numbers = numbers_of(steps, tensors)] { run_steps(steps, tensors, numbers); },
          ranges_of(steps, tensors)};
}

void expect_workspace(const void* workspace, int64_t bytes) {
  if (bytes == 0 || (workspace != nullptr && reinterpret_cast<uintptr_t>(workspace) % 256 == 0)) return;
  refuse("cuDNN: a workspace that is missing or not aligned to 256 bytes");
  throw Refusal{CUDNN_STATUS_BAD_PARAM, last_refusal()};
}

}  // namespace

std::vector<ObjectPointer> configurations(const Object& operations, cudnnBackendHeurMode_t mode) {
  std::vector<ObjectPointer> found;
  for (const Engine& engine : engines()) {
    if (engine.is_fallback == (mode == CUDNN_HEUR_MODE_FALLBACK) && takes(engine, operations))
      found.push_back(configuration(engine, operations));
  }
  return found;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(int64_t engine) {
  return engine_of(engine).notes;
}

int64_t workspace_of(int64_t engine) {
  return engine_of(engine).workspace;
}

void expect_taken(int64_t number, const Object& operations) {
  const Engine& engine = engine_of(number);
  if (!engine.can_be_planned || !takes(engine, operations))
    throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, fmt::format("engine {} does not take this graph", number)};
}

void execute(cudnnHandle_t handle, const Object& plan, const Object& addresses) {
  if (!plan.is_finalized || !addresses.is_finalized)
    throw Refusal{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or its addresses are not finalised"};
  const Object& runs = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).child(CUDNN_ATTR_ENGINECFG_ENGINE);
  const Engine& engine = engine_of(runs.value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  if (!engine.can_run) throw Refusal{CUDNN_STATUS_EXECUTION_FAILED, "this engine fails whenever it runs"};
  const auto uids = addresses.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto places = addresses.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void*> tensors;
  for (size_t i = 0; i < uids.size(); ++i) tensors[uids[i]] = places.at(i);
  const Object& operations = runs.child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  Run run = run_of(operations, tensors);
  if (engine.number == kWrong) {
    const Images result = graph_of(operations).result;
    const size_t result_bytes =
        static_cast<size_t>(result.count()) * (result.type == CUDNN_DATA_FLOAT ? 4 : 2);
    run.compute = [=, at = tensors.at(result.uid)] { std::memset(at, 0, result_bytes); };
  }
  auto* workspace = addresses.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto bytes = static_cast<size_t>(engine.workspace);
  expect_workspace(workspace, engine.workspace);
  if (bytes > 0) run.ranges.push_back({workspace, bytes});
  const auto work = [=, compute = std::move(run.compute)] {
    if (bytes > 0) std::memset(workspace, 0xFF, bytes);
    compute();
  };
  const cudaError_t status = runtime_call("cudnnBackendExecute", [&] {
    return enqueue_on_device(handle->stream, {.name = "cudnnBackendExecute",
                                              .work = work,
                                              .ranges = std::move(run.ranges),
                                              .seconds = engine.seconds});
  });
  if (status != cudaSuccess) throw Refusal{CUDNN_STATUS_EXECUTION_FAILED, last_refusal()};
}

}  // namespace trainer::standin
