// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text_cache.h"
#include "cuda/cudnn/oracle.h"

namespace trainer::cuda::cudnn {

/// A finalised execution plan: a graph on an engine of one device, to be run any number of times.
class Plan {
 public:
  /// Keeps the handle. Throws Error with the library's reason if the engine does not take the graph.
  Plan(const Graph& graph, const std::string& choice, cudnnHandle_t handle);
  /// From the text of an earlier plan; throws Error if the library does not accept it.
  Plan(const std::string& text, cudnnHandle_t handle);

  /// Text that recreates it in another process, without a search or a compiler; Error if it has no text.
  std::string text() const;
  int64_t workspace_bytes() const;
  /// Enqueues one run on the handle's stream.
  void run(const Descriptor& addresses) const;

 private:
  cudnnHandle_t handle_;
  Descriptor plan_;
};

/// The addresses of a plan's tensors, by the graph's names of them, and its workspace.
Descriptor addresses(const std::vector<std::pair<int64_t, void*>>& tensors, void* workspace);

/// cuDNN on the computing device, or about a described one. Caches its answers: one network has the same
/// layer many times.
class Library {
 public:
  /// On the current device; throws Error if cuDNN does not start. Plans that `cache` has for this
  /// `machine` are not made again.
  static std::unique_ptr<Library> on_device(cudaStream_t stream, const std::string& device_name,
                                            std::shared_ptr<TextCache> cache = nullptr,
                                            const std::string& machine = "");
  /// `json`: cuDNN's description of the device.
  static std::unique_ptr<Library> described(const std::string& json, const std::string& device_name);
  ~Library();

  /// "cuDNN 9.19.0, NVIDIA H200"
  const std::string& title() const { return title_; }
  bool on_device() const { return handle_ != nullptr; }

  /// The heuristics' choices, best first.
  const Answer& ask(const Graph& graph);
  /// The first `most` of them that take the graph and a bearable workspace; if the device is only
  /// described, they are not tried. Throws nothing: the reason is in ask(graph).refusal.
  std::vector<EngineChoice> usable(const Graph& graph, size_t most);
  std::shared_ptr<const Plan> plan(const Graph& graph, const std::string& choice);
  /// Keeps a plan for other processes.
  void share(const Graph& graph, const std::string& choice);
  /// Releases a plan's resources, unless another owner holds it.
  void forget(const Graph& graph, const std::string& choice);

 private:
  explicit Library(const std::string& device_name);

  /// Nothing if the cache has none that the library takes.
  std::shared_ptr<const Plan> shared_plan(const std::string& name);

  std::string title_;
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<TextCache> cache_;
  std::string machine_;
  std::unique_ptr<Oracle> oracle_;        ///< answers about a described device, in a process of its own
  std::optional<Descriptor> properties_;  ///< of a described device that this process itself may query
  std::map<std::string, Answer> answers_;
  std::map<std::string, std::shared_ptr<const Plan>> plans_;
  std::set<std::string> shared_;   ///< as in plans_: the cached plans
  std::set<std::string> refused_;  ///< as in plans_: choices of the heuristics that the engine refuses
};

}  // namespace trainer::cuda::cudnn
