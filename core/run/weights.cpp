// SPDX-License-Identifier: Apache-2.0
#include "core/run/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/printable.h"
#include "core/base/version.h"
#include "core/config/fields.h"
#include "core/config/patterns.h"
#include "core/graph/names.h"
#include "core/run/non_finite_weights.h"
#include "core/run/weight_fit.h"
#include "core/run/weight_names.h"
#include "core/storage/safetensors.h"

namespace trainer {
namespace {

std::vector<TensorId> weights(const Executable& executable) {
  std::vector<TensorId> ids;
  for (size_t i = 0; i < executable.plan().tensors.size(); ++i) {
    if (is_weight(executable.plan().tensors[i])) ids.push_back(static_cast<TensorId>(i));
  }
  return ids;
}

const Tensor& tensor(const Executable& executable, TensorId id) {
  return executable.plan().tensors[static_cast<size_t>(id)];
}

std::vector<const Tensor*> weights_among(std::span<const Tensor> tensors) {
  std::vector<const Tensor*> found;
  for (const Tensor& each : tensors) {
    if (is_weight(each)) found.push_back(&each);
  }
  return found;
}

/// Throws if a pattern matches nothing that the network or the file has.
void check_replaced(const std::vector<const Tensor*>& weights, const SafetensorsFile& file,
                    const Replaced& replaced) {
  std::vector<std::string> names;
  for (const Tensor* weight : weights) names.push_back(weight->name);
  for (const StoredTensor& stored : file.tensors()) names.push_back(stored.name);
  Diagnostics diagnostics;
  check_patterns(replaced.patterns, names, "tensor of the network or the file", replaced.origin, diagnostics);
  diagnostics.throw_if_any();
}

void save(const Executable& executable, const std::filesystem::path& path, const StoredMetadata& about,
          bool averages) {
  const std::vector<TensorId> ids = weights(executable);
  std::vector<StoredTensor> stored;
  for (TensorId id : ids) {
    stored.push_back(
        {.name = tensor(executable, id).name, .dtype = "F32", .shape = tensor(executable, id).spec.shape});
  }
  NonFiniteWeights non_finite;
  const auto read = [&](size_t i, const ByteSink& sink) {
    const TensorId average = executable.tensor(stored[i].name + state_suffix::kAverage);
    const bool averaged = averages && average != kNone;
    const std::vector<float> values = executable.read(averaged ? average : ids[i]);
    non_finite.count(stored[i].name, DType::f32, std::as_bytes(std::span(values)));
    sink(std::as_bytes(std::span(values)));
  };
  write_atomically(path, [&](const ByteSink& sink) {
    compose_safetensors(stored, weights_metadata(about), read, sink);
    non_finite.refuse_to_save(path.string());
  });
}

/// Into the tensors named like the weights with `suffix` appended.
LoadedWeights load(Executable& executable, const std::filesystem::path& path, const Replaced& replaced,
                   const std::string& suffix) {
  const SafetensorsFile file(path);
  const std::vector<const Tensor*> wanted = weights_among(executable.plan().tensors);
  check_replaced(wanted, file, replaced);
  const WeightNames names = match_names(wanted, replaced.tied, file);
  const bool may_lack = suffix == state_suffix::kAverage;
  const std::vector<std::string> patterns = require_fit(wanted, path, file, names, replaced, may_lack);
  LoadedWeights found{.loaded = {}, .replaced = {}, .left = {}, .prefixes = names.prefixes};
  for (const Tensor* weight : wanted) {
    const bool is_replaced = matches_any(patterns, weight->name);
    (is_replaced ? found.replaced : found.loaded).push_back(weight->name);
    const TensorId into = executable.tensor(weight->name + suffix);
    const StoredTensor* stored = names.find(weight->name);
    if (!is_replaced && into != kNone && stored != nullptr) executable.write(into, file.read_floats(*stored));
  }
  std::set<const StoredTensor*> used;
  for (const auto& [name, stored] : names.found) used.insert(stored);
  for (const StoredTensor& stored : file.tensors()) {
    if (!used.contains(&stored)) found.left.push_back(stored.name);
  }
  return found;
}

}  // namespace

bool is_weight(const Tensor& tensor) {
  if (tensor.role == Role::parameter) return true;
  return tensor.role == Role::state && tensor.spec.dtype == DType::f32 &&
         !tensor.name.ends_with(state_suffix::kAverage);
}

StoredMetadata weights_metadata(const StoredMetadata& about) {
  StoredMetadata metadata = {{"format", "pt"}, {"trainer", kVersion}};
  metadata.insert(about.begin(), about.end());
  return metadata;
}

void save_weights(const Executable& executable, const std::filesystem::path& path,
                  const StoredMetadata& about) {
  save(executable, path, about, false);
}

void save_averages(const Executable& executable, const std::filesystem::path& path,
                   const StoredMetadata& about) {
  save(executable, path, about, true);
}

void start_averages(Executable& executable) {
  for (TensorId id : weights(executable)) {
    const TensorId average = executable.tensor(tensor(executable, id).name + state_suffix::kAverage);
    if (average != kNone) executable.write(average, executable.read(id));
  }
}

void check_weights(std::span<const Tensor> tensors, const std::filesystem::path& path,
                   const Replaced& replaced) {
  const SafetensorsFile file(path);
  const std::vector<const Tensor*> wanted = weights_among(tensors);
  const WeightNames names = match_names(wanted, replaced.tied, file);
  require_fit(wanted, path, file, names, replaced, false);
}

LoadedWeights load_weights(Executable& executable, const std::filesystem::path& path,
                           const Replaced& replaced) {
  return load(executable, path, replaced, "");
}

std::string prefix_remark(const LoadedWeights& loaded) {
  if (loaded.prefixes.empty()) return "";
  return fmt::format("removed '{}' from names of the file", fmt::join(loaded.prefixes, "' and '"));
}

void load_averages(Executable& executable, const std::filesystem::path& path) {
  start_averages(executable);
  load(executable, path, {}, state_suffix::kAverage);
}

}  // namespace trainer
