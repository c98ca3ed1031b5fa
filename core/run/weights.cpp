// SPDX-License-Identifier: Apache-2.0
#include "core/run/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include "core/base/printable.h"
#include "core/base/version.h"
#include "core/config/fields.h"
#include "core/config/patterns.h"
#include "core/graph/names.h"
#include "core/run/int8_weights.h"
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

/// A file that fits a network.
class FittingFile {
 public:
  FittingFile(std::span<const Tensor> tensors, const std::filesystem::path& path, const Replaced& replaced,
              bool may_lack)
      : file_(path), wanted_(weights_among(tensors)), names_(match_names(wanted_, replaced.tied, file_)) {
    check_replaced(wanted_, file_, replaced);
    patterns_ = require_fit(wanted_, path, file_, names_, replaced, may_lack);
  }

  const std::vector<const Tensor*>& wanted() const { return wanted_; }
  /// Null if the network's tensor of that name keeps its first value.
  const StoredTensor* find(const std::string& name) const {
    return matches_any(patterns_, name) ? nullptr : names_.find(name);
  }
  std::vector<float> read(const StoredTensor& stored) const { return file_.read_floats(stored); }

  LoadedWeights about() const {
    LoadedWeights found{.loaded = {}, .replaced = {}, .left = {}, .prefixes = names_.prefixes};
    for (const Tensor* weight : wanted_) {
      const bool is_replaced = matches_any(patterns_, weight->name);
      (is_replaced ? found.replaced : found.loaded).push_back(weight->name);
    }
    std::set<const StoredTensor*> used;
    for (const auto& [name, stored] : names_.found) used.insert(stored);
    for (const StoredTensor& stored : file_.tensors()) {
      if (!used.contains(&stored)) found.left.push_back(stored.name);
    }
    return found;
  }

 private:
  SafetensorsFile file_;
  std::vector<const Tensor*> wanted_;
  WeightNames names_;
  std::vector<std::string> patterns_;
};

/// Whether the tensor has memory before the entry `prepare` runs.
bool is_held(const Executable& executable, TensorId id) {
  return id != kNone && !executable.plan().placements[static_cast<size_t>(id)].is_transient;
}

}  // namespace

bool is_weight(const Tensor& tensor) {
  if (tensor.role == Role::parameter) return true;
  return tensor.role == Role::state && tensor.spec.dtype == DType::f32 &&
         !tensor.name.ends_with(state_suffix::kAverage) && !tensor.name.ends_with(state_suffix::kRange);
}

StoredMetadata weights_metadata(const StoredMetadata& about) {
  StoredMetadata metadata = {{"format", "pt"}, {"trainer", kVersion}};
  metadata.insert(about.begin(), about.end());
  return metadata;
}

void start_averages(Executable& executable) {
  for (TensorId id : weights(executable)) {
    const TensorId average = executable.tensor(tensor(executable, id).name + state_suffix::kAverage);
    const bool is_here = average != kNone && executable.address(average) != nullptr;
    if (is_here) executable.write(average, executable.read(id));
  }
}

void check_weights(std::span<const Tensor> tensors, const std::filesystem::path& path,
                   const Replaced& replaced) {
  require_trainable(path);
  const FittingFile checked(tensors, path, replaced, false);
}

LoadedWeights load_weights(Executable& executable, const std::filesystem::path& path,
                           const Replaced& replaced, OtherImages* others) {
  if (executable.plan().has_entry(entry_name::kPrepare))
    throw std::logic_error("weights that are prepared are loaded by load_trained");
  require_trainable(path);
  const FittingFile file(executable.plan().tensors, path, replaced, false);
  const auto write_all = [&](const auto& write) {
    for (const Tensor* weight : file.wanted()) {
      if (const StoredTensor* stored = file.find(weight->name))
        write(executable.tensor(weight->name), file.read(*stored));
    }
  };
  if (others == nullptr) {
    write_all([&](TensorId id, const std::vector<float>& values) { executable.write(id, values); });
    return file.about();
  }
  StateImage image(executable, StateImage::usual_memory(executable.plan()), others);
  image.take();
  write_all([&](TensorId id, const std::vector<float>& values) {
    image.write(id, to_stored(std::span(values), executable.plan().stored_type(id)));
  });
  image.restore();
  return file.about();
}

LoadedWeights load_trained(Executable& executable, const TrainedWeights& from) {
  const Replaced nothing{.patterns = {}, .origin = {}, .tied = from.tied};
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  const FittingFile model(tensors, from.model, nothing, false);
  std::optional<FittingFile> averages;
  if (!from.averages.empty()) averages.emplace(tensors, from.averages, nothing, true);
  const auto write = [&](TensorId id, const FittingFile& file, const StoredTensor& stored) {
    executable.write(id, file.read(stored));
  };
  for (const Tensor* weight : model.wanted()) {
    const TensorId id = executable.tensor(weight->name),
                   average = executable.tensor(weight->name + state_suffix::kAverage);
    if (is_held(executable, id)) write(id, model, *model.find(weight->name));
    if (!averages || average == kNone) continue;
    const StoredTensor* stored = averages->find(weight->name);
    if (stored != nullptr) {
      write(average, *averages, *stored);
    } else {
      write(average, model, *model.find(weight->name));
    }
  }
  executable.prepare([&](TensorId id) { write(id, model, *model.find(tensor(executable, id).name)); });
  return model.about();
}

void load_constants(Executable& executable, std::span<const Tensor> network, const std::string& prefix,
                    const std::filesystem::path& path, const TiedNames& tied) {
  const FittingFile file(network, path, {.patterns = {}, .origin = {}, .tied = tied}, false);
  for (const Tensor* weight : file.wanted()) {
    const TensorId id = executable.tensor(prefix + weight->name);
    if (id != kNone) executable.write(id, file.read(*file.find(weight->name)));
  }
}

int64_t loading_bytes(const Plan& plan) {
  int64_t largest = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    if (!is_weight(tensor)) continue;
    const int64_t read = numel(whole_shape(tensor)) * static_cast<int64_t>(sizeof(float));
    const int64_t stored = stored_elements(plan.placements[i].layout, tensor.spec.shape) *
                           plan.stored_type(static_cast<TensorId>(i)).bytes;
    largest = std::max(largest, read + stored);
  }
  return largest;
}

std::string prefix_remark(const LoadedWeights& loaded) {
  if (loaded.prefixes.empty()) return "";
  return fmt::format("removed '{}' from names of the file", fmt::join(loaded.prefixes, "' and '"));
}

}  // namespace trainer
