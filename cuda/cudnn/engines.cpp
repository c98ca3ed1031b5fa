// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn/engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <stdexcept>
#include <variant>

#include "core/base/error.h"

namespace trainer::cuda::cudnn {
namespace {

using Knobs = std::map<int, int64_t>;

std::string to_text(int64_t engine, const Knobs& knobs) {
  std::string text = fmt::format("e{}", engine);
  for (const auto& [type, value] : knobs) text += fmt::format(":{}={}", type, value);
  return text;
}

Knobs knobs_of(const Descriptor& configuration) {
  Knobs knobs;
  const auto all =
      configuration.children(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                             "a knob", CUDNN_KNOB_TYPE_COUNTS);
  for (const Descriptor& knob : all) {
    knobs[int{knob.value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)}] =
        knob.value<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  }
  return knobs;
}

/// cuDNN's notes on an engine's numbers.
class NumericalNotes {
 public:
  explicit NumericalNotes(const Descriptor& engine)
      : notes_(engine.values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)) {}
  bool has(cudnnBackendNumericalNote_t note) const {
    return std::find(notes_.begin(), notes_.end(), note) != notes_.end();
  }

 private:
  std::vector<cudnnBackendNumericalNote_t> notes_;
};

/// A graph's requirements for its numbers.
struct Promise {
  bool deterministic;
  bool f32, tf32;  ///< f32: of factors, which may be rounded if tf32 is true
};

Promise promise_of(const ConvolutionGraph& graph) {
  return {.deterministic = graph.deterministic, .f32 = graph.dtype == DType::f32, .tf32 = graph.tf32};
}

/// cuDNN never notes engines for attention as nondeterministic: the graph's form decides.
Promise promise_of(const AttentionGraph& graph) {
  return {.deterministic = graph.deterministic, .f32 = false, .tf32 = false};
}

/// Whether the engine meets them. Tensor cores have no f32: they round its factors.
bool keep(const NumericalNotes& notes, const Promise& promise) {
  if (promise.deterministic && notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (!promise.f32) return true;
  if (notes.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return promise.tf32 || !notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

/// The configurations that one mode of the heuristics gives.
std::vector<Descriptor> configurations(const Descriptor& operations, cudnnBackendHeurMode_t mode,
                                       const Subject& subject) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "cuDNN's heuristics");
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (subject.properties != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *subject.properties);
  // A graph that no engine of this mode accepts is refused here, or gets an empty list.
  if (const cudnnStatus_t status = heuristics.try_finalize(); status != CUDNN_STATUS_SUCCESS) {
    if (status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR) return {};
    check(status, "cuDNN's heuristics");
  }
  const size_t count = heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  return heuristics.children(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                             "an engine's configuration", count);
}

/// A configuration of the heuristics, if its engine meets the graph's requirements.
std::optional<EngineChoice> choice_of(const Descriptor& configuration, const Promise& promise) {
  const auto engines = configuration.children(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                                              "an engine of cuDNN", 1);
  if (engines.empty()) return std::nullopt;
  const NumericalNotes notes(engines[0]);
  if (!keep(notes, promise)) return std::nullopt;
  return EngineChoice{
      .text = to_text(engines[0].value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), knobs_of(configuration)),
      .workspace_bytes = configuration.value<int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE),
      .tensor_cores = notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)};
}

/// "e34:2=13" as a finalised configuration of that engine for these operations.
Descriptor configuration_of(const std::string& choice, const Descriptor& operations) {
  const char* at = choice.c_str();
  char* end = nullptr;
  const auto number = [&](char before) {
    if (*at != before) throw std::logic_error("not an engine of cuDNN: " + choice);
    const int64_t value = std::strtoll(at + 1, &end, 10);
    at = end;
    return value;
  };
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine of cuDNN");
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, operations).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number('e'));
  engine.finalize();
  std::vector<Descriptor> knobs;
  while (*at != '\0') {
    const auto type = static_cast<cudnnBackendKnobType_t>(number(':'));
    Descriptor& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "a knob");
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, type).set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, number('='));
    knob.finalize();
  }
  Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine's configuration");
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty()) configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  configuration.finalize();
  return configuration;
}

}  // namespace

Descriptor described_device(const std::string& json) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a device's description");
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::vector<char>(json.begin(), json.end()));
  properties.finalize();
  return properties;
}

std::vector<EngineChoice> engine_choices(const Graph& graph, const Subject& subject) {
  const Promise promise = std::visit([](const auto& one) { return promise_of(one); }, graph);
  const Descriptor operations = operation_graph(graph, subject.handle);
  std::vector<EngineChoice> found;
  std::exception_ptr problem;  // of one configuration; others may succeed
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Descriptor& configuration : configurations(operations, mode, subject)) {
      try {
        std::optional<EngineChoice> choice = choice_of(configuration, promise);
        const auto equals = [&](const EngineChoice& other) { return other.text == choice->text; };
        if (!choice || std::any_of(found.begin(), found.end(), equals)) continue;
        choice->fallback = mode == CUDNN_HEUR_MODE_FALLBACK;
        found.push_back(*std::move(choice));
      } catch (const Error&) {
        problem = std::current_exception();
      }
    }
  }
  if (found.empty() && problem) std::rethrow_exception(problem);
  return found;
}

Descriptor execution_plan(const Graph& graph, const std::string& choice, cudnnHandle_t handle) {
  const Descriptor operations = operation_graph(graph, handle);
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan of cuDNN");
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration_of(choice, operations));
  plan.finalize();
  return plan;
}

Descriptor execution_plan(const std::string& text, cudnnHandle_t handle) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan of cuDNN");
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
      .set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, std::vector<char>(text.begin(), text.end()));
  plan.finalize();
  return plan;
}

}  // namespace trainer::cuda::cudnn
