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
#include "core/storage/safetensors.h"

namespace trainer {
namespace {

/// Names that are missing and get a suggestion; each is compared with all existing ones.
constexpr size_t kMostSuggested = 20;

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

std::vector<std::string> names_of(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const StoredTensor& stored : file.tensors()) names.push_back(stored.name);
  return names;
}

/// The prefix of all names in the network that the file lacks: "transformer." of GPT-2's published weights,
/// which are those of a part of its network. Usually empty.
std::string missing_prefix(const Executable& executable, const SafetensorsFile& file) {
  std::string prefix;
  bool found = false;
  for (TensorId id : weights(executable)) {
    const std::string& name = tensor(executable, id).name;
    if (prefix.empty()) prefix = name.substr(0, name.find('.') + 1);
    if (prefix.empty() || !name.starts_with(prefix) || file.find(name) != nullptr) return "";
    found = found || file.find(name.substr(prefix.size())) != nullptr;
  }
  return found ? prefix : "";
}

/// Throws if a pattern matches nothing that the network or the file has.
void check_replaced(const Executable& executable, const SafetensorsFile& file, const Replaced& replaced) {
  std::vector<std::string> names;
  for (TensorId id : weights(executable)) names.push_back(tensor(executable, id).name);
  for (const std::string& name : names_of(file)) names.push_back(name);
  Diagnostics diagnostics;
  check_patterns(replaced.patterns, names, "tensor of the network or the file", replaced.origin, diagnostics);
  diagnostics.throw_if_any();
}

/// One line for each tensor that the file lacks or has in another shape, and for each it has too many.
std::vector<std::string> problems(const Executable& executable, const SafetensorsFile& file,
                                  const std::vector<std::string>& replaced, bool may_lack) {
  std::vector<std::string> lines;
  const std::vector<std::string> stored_names = names_of(file);
  const size_t prefix = missing_prefix(executable, file).size();
  std::set<std::string> used;
  size_t suggested = 0;
  for (TensorId id : weights(executable)) {
    const Tensor& wanted = tensor(executable, id);
    const std::string stored_name = wanted.name.substr(prefix);
    used.insert(stored_name);
    if (matches_any(replaced, wanted.name)) continue;
    const StoredTensor* stored = file.find(stored_name);
    if (stored == nullptr && may_lack) continue;
    if (stored == nullptr) {
      const bool suggests = suggested++ < kMostSuggested;
      const auto near = suggests ? nearest(wanted.name, stored_names) : std::nullopt;
      lines.push_back(fmt::format("the file has no '{}' of shape {}{}", one_line(wanted.name),
                                  to_string(wanted.spec.shape),
                                  near ? fmt::format("; the nearest name is '{}'", one_line(*near)) : ""));
    } else if (stored->shape != wanted.spec.shape) {
      lines.push_back(fmt::format("'{}' has shape {}, the network needs {}", wanted.name,
                                  to_string(stored->shape), to_string(wanted.spec.shape)));
    }
  }
  // PyTorch's batch normalisation counts batches, which nothing here reads.
  for (const std::string& name : stored_names) {
    if (!used.contains(name) && !name.ends_with(".num_batches_tracked") && !matches_any(replaced, name))
      lines.push_back(fmt::format("the network has no '{}'", one_line(name)));
  }
  return lines;
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
  check_replaced(executable, file, replaced);
  const bool may_lack = suffix == state_suffix::kAverage;
  const std::vector<std::string> wrong = problems(executable, file, replaced.patterns, may_lack);
  if (!wrong.empty()) {
    const bool can_replace = !replaced.origin.path.empty();
    throw Error(ExitCode::data,
                fmt::format("{} does not fit the network{}:\n  {}", one_line(path.string()),
                            can_replace ? "; list what to re-initialise in model.replace" : "",
                            fmt::join(wrong, "\n  ")));
  }
  const size_t prefix = missing_prefix(executable, file).size();
  LoadedWeights found{.loaded = {}, .replaced = {}, .left = names_of(file)};
  std::set<std::string> used;
  for (TensorId id : weights(executable)) {
    const std::string& name = tensor(executable, id).name;
    const std::string stored_name = name.substr(prefix);
    used.insert(stored_name);
    const bool is_replaced = matches_any(replaced.patterns, name);
    (is_replaced ? found.replaced : found.loaded).push_back(name);
    const TensorId into = executable.tensor(name + suffix);
    const StoredTensor* stored = file.find(stored_name);
    if (!is_replaced && into != kNone && stored != nullptr) executable.write(into, file.read_floats(*stored));
  }
  std::erase_if(found.left, [&](const std::string& name) { return used.contains(name); });
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

LoadedWeights load_weights(Executable& executable, const std::filesystem::path& path,
                           const Replaced& replaced) {
  return load(executable, path, replaced, "");
}

void load_averages(Executable& executable, const std::filesystem::path& path) {
  start_averages(executable);
  load(executable, path, {}, state_suffix::kAverage);
}

}  // namespace trainer
