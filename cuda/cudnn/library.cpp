// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn/library.h"

#include <cudnn_ops.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "core/base/error.h"

namespace trainer::cuda::cudnn {
namespace {

/// An engine beyond this is taken only if all need more: cuDNN ranks by speed alone.
constexpr int64_t kBearableWorkspace = int64_t{1} << 30;

/// Whether this process has used a GPU: CUDA does not survive a fork, so no process may then be forked to ask
/// about described ones. Such a machine has a driver, so the answers here are right too.
std::atomic<bool> cuda_has_begun{false};

std::string release() {
  const size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string plan_key(const std::string& machine, const std::string& name) {
  return fmt::format("plan {}, {}: {}", kGraphRevision, machine, name);
}

/// The choices with a bearable workspace in their order, otherwise the one with the smallest.
std::vector<EngineChoice> bearable(const std::vector<EngineChoice>& choices) {
  std::vector<EngineChoice> found;
  for (const EngineChoice& choice : choices) {
    if (choice.workspace_bytes <= kBearableWorkspace) found.push_back(choice);
  }
  if (!found.empty() || choices.empty()) return found;
  return {*std::min_element(choices.begin(), choices.end(), [](const EngineChoice& a, const EngineChoice& b) {
    return a.workspace_bytes < b.workspace_bytes;
  })};
}

}  // namespace

Plan::Plan(const Graph& graph, const std::string& choice, cudnnHandle_t handle)
    : handle_(handle), plan_(execution_plan(graph, choice, handle)) {}

Plan::Plan(const std::string& text, cudnnHandle_t handle)
    : handle_(handle), plan_(execution_plan(text, handle)) {}

std::string Plan::text() const {
  const auto characters = plan_.values<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  return {characters.begin(), characters.end()};
}

int64_t Plan::workspace_bytes() const {
  return plan_.value<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

void Plan::run(const Descriptor& addresses) const {
  check(cudnnBackendExecute(handle_, plan_.get(), addresses.get()), "running a plan of cuDNN");
}

Descriptor addresses(const std::vector<std::pair<int64_t, void*>>& tensors, void* workspace) {
  std::vector<int64_t> uids;
  std::vector<void*> places;
  for (const auto& [uid, place] : tensors) {
    uids.push_back(uid);
    places.push_back(place);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "a plan's addresses");
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
      .set_addresses(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, places)
      .set_addresses(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {workspace});
  pack.finalize();
  return pack;
}

Library::Library(const std::string& device_name)
    : title_(fmt::format("cuDNN {}, {}", release(), device_name)) {}

std::unique_ptr<Library> Library::on_device(cudaStream_t stream, const std::string& device_name,
                                            std::shared_ptr<TextCache> cache, const std::string& machine) {
  std::unique_ptr<Library> library(new Library(device_name));
  library->cache_ = std::move(cache);
  library->machine_ = machine;
  cuda_has_begun = true;
  check(cudnnCreate(&library->handle_), "starting cuDNN");
  check(cudnnSetStream(library->handle_, stream), "giving cuDNN its stream");
  return library;
}

std::unique_ptr<Library> Library::described(const std::string& json, const std::string& device_name) {
  std::unique_ptr<Library> library(new Library(device_name));
  if (cuda_has_begun) {
    library->properties_ = described_device(json);
  } else {
    library->oracle_ = std::make_unique<Oracle>(json);
  }
  return library;
}

Library::~Library() {
  plans_.clear();
  if (handle_ != nullptr) static_cast<void>(cudnnDestroy(handle_));
}

const Answer& Library::ask(const Graph& graph) {
  const auto [known, added] = answers_.try_emplace(text_of(graph));
  if (!added) return known->second;
  if (oracle_ != nullptr) {
    known->second = oracle_->ask(graph);
  } else {
    try {
      known->second.choices =
          engine_choices(graph, {.handle = handle_, .properties = properties_ ? &*properties_ : nullptr});
    } catch (const Error& problem) {
      known->second.refusal = problem.what();
    }
  }
  return known->second;
}

std::vector<EngineChoice> Library::usable(const Graph& graph, size_t most) {
  std::vector<EngineChoice> found;
  for (EngineChoice choice : bearable(ask(graph).choices)) {
    if (found.size() == most) break;
    const std::string name = text_of(graph) + " " + choice.text;
    if (refused_.contains(name)) continue;
    if (on_device()) {
      try {
        choice.workspace_bytes = plan(graph, choice.text)->workspace_bytes();
      } catch (const Error& problem) {  // the heuristics offer engines that refuse: the next one
        answers_[text_of(graph)].refusal = problem.what();
        refused_.insert(name);
        continue;
      }
    }
    found.push_back(std::move(choice));
  }
  return found;
}

std::shared_ptr<const Plan> Library::plan(const Graph& graph, const std::string& choice) {
  const std::string name = text_of(graph) + " " + choice;
  std::shared_ptr<const Plan>& known = plans_[name];
  if (known == nullptr) known = shared_plan(name);
  if (known == nullptr) known = std::make_shared<const Plan>(graph, choice, handle_);
  return known;
}

std::shared_ptr<const Plan> Library::shared_plan(const std::string& name) {
  if (cache_ == nullptr) return nullptr;
  const std::optional<std::string> text = cache_->find(plan_key(machine_, name));
  if (!text) return nullptr;
  try {
    auto plan = std::make_shared<const Plan>(*text, handle_);
    shared_.insert(name);
    return plan;
  } catch (const Error&) {  // it is made again, and replaces this one
    return nullptr;
  }
}

void Library::share(const Graph& graph, const std::string& choice) {
  const std::string name = text_of(graph) + " " + choice;
  if (cache_ == nullptr || !shared_.insert(name).second) return;
  try {
    cache_->put(plan_key(machine_, name), plan(graph, choice)->text());
  } catch (const Error&) {  // an engine with plans that have no text
  }
}

void Library::forget(const Graph& graph, const std::string& choice) {
  plans_.erase(text_of(graph) + " " + choice);
}

}  // namespace trainer::cuda::cudnn
