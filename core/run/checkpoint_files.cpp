// SPDX-License-Identifier: Apache-2.0
#include "core/run/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/activation_levels.h"
#include "core/base/printable.h"
#include "core/graph/names.h"
#include "core/quantization/int8_network.h"
#include "core/run/non_finite_weights.h"
#include "core/run/weights.h"
#include "core/step/guard.h"
#include "core/storage/safetensors.h"

namespace trainer {
namespace {

std::string dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
    case DType::i8:
      return "I8";
  }
  return "?";
}

/// Which tensors a file holds, and their names there.
struct Contents {
  const char* file;
  std::vector<TensorId> ids;
  std::vector<StoredTensor> stored;

  void add(TensorId id, const Tensor& tensor, const std::string& name) {
    ids.push_back(id);
    stored.push_back({.name = name, .dtype = dtype_name(tensor.spec.dtype), .shape = whole_shape(tensor)});
  }
};

std::vector<Contents> contents_of(const Plan& plan) {
  Contents model{kModelFile, {}, {}}, averages{kAveragesFile, {}, {}}, rest{kOptimizerFile, {}, {}};
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    const auto id = static_cast<TensorId>(i);
    if (!outlives_step(tensor.role)) continue;
    if (tensor.name.ends_with(state_suffix::kAverage)) {
      averages.add(id, tensor,
                   tensor.name.substr(0, tensor.name.size() - std::string(state_suffix::kAverage).size()));
    } else if (is_weight(tensor)) {
      model.add(id, tensor, tensor.name);
    } else {
      rest.add(id, tensor, tensor.name);
    }
  }
  std::vector<Contents> files{std::move(model), std::move(rest)};
  if (!averages.ids.empty()) files.push_back(std::move(averages));
  return files;
}

/// What compression.quantize has found; empty: the run does not round.
InputRanges ranges_in(const Plan& plan, StateImage& image) {
  constexpr std::string_view kEnd = state_suffix::kRange;
  InputRanges ranges;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    if (tensor.role != Role::state || !tensor.name.ends_with(kEnd)) continue;
    std::vector<std::byte> bytes;
    image.read(static_cast<TensorId>(i), [&](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    std::array<float, 2> ends{};
    std::memcpy(ends.data(), bytes.data(), sizeof ends);
    const ValueRange range{.low = ends[0], .high = ends[1]};
    const bool has_scale = ActivationLevels{}.of_range(range.low, range.high).scale > 0;
    ranges[tensor.name.substr(0, tensor.name.size() - kEnd.size())] = has_scale ? range : ValueRange{};
  }
  return ranges;
}

bool is_same(const StoredTensor& stored, const StoredTensor& wanted) {
  return stored.shape == wanted.shape && stored.dtype == wanted.dtype;
}

/// Whether a tensor of this name need not fit: it belongs to guards that have changed, or is a factor that
/// follows from the run's state.
bool may_differ(const std::string& name, const char* file, Guards guards) {
  if (name == state_name::kLearningRateFactor && file == std::string_view(kOptimizerFile)) return true;
  return guards == Guards::other && file == std::string_view(kOptimizerFile) &&
         std::ranges::find(kGuardStates, std::string_view(name)) != kGuardStates.end();
}

void begin_guards_anew(Executable& executable) {
  for (const char* name : kGuardStates) {
    const TensorId id = executable.tensor(name);
    if (id != kNone) initialize(executable, id, 0);
  }
}

void check_fit(const Contents& wanted, const SafetensorsFile& found, const std::filesystem::path& path,
               Guards guards) {
  std::vector<std::string> wrong;
  for (const StoredTensor& tensor : wanted.stored) {
    const StoredTensor* stored = found.find(tensor.name);
    if (may_differ(tensor.name, wanted.file, guards)) continue;
    const bool begins_anew =
        tensor.name.ends_with(state_suffix::kMask) || tensor.name.ends_with(state_suffix::kRange);
    if (stored == nullptr && begins_anew) continue;
    if (stored == nullptr) {
      wrong.push_back(fmt::format("it has no '{}'", tensor.name));
    } else if (!is_same(*stored, tensor)) {
      wrong.push_back(fmt::format("'{}' is {} {}, the run needs {} {}", tensor.name, stored->dtype,
                                  to_string(stored->shape), tensor.dtype, to_string(tensor.shape)));
    }
  }
  for (const StoredTensor& tensor : found.tensors()) {
    const auto same = [&](const StoredTensor& other) { return other.name == tensor.name; };
    if (may_differ(tensor.name, wanted.file, guards) || std::ranges::any_of(wanted.stored, same)) continue;
    wrong.push_back(
        fmt::format("the run has no '{}'{}", tensor.name,
                    tensor.name.ends_with(state_suffix::kMask)
                        ? ", which keeps pruned weights at zero; leave compression.prune as it was, or "
                          "begin another run with model.initial_weights"
                        : ""));
  }
  if (wrong.empty()) return;
  throw Error(ExitCode::data, fmt::format("{} does not fit this run:\n  {}", one_line(path.string()),
                                          fmt::join(wrong, "\n  ")));
}

}  // namespace

void add_tensors(CheckpointWriter& writer, const Plan& plan, StateImage& image, const StoredMetadata& about) {
  StoredMetadata metadata = weights_metadata(about);
  if (const InputRanges ranges = ranges_in(plan, image); !ranges.empty())
    metadata[kRangesMetadata] = ranges_text(ranges);
  for (const Contents& file : contents_of(plan)) {
    const bool holds_weights = file.file != std::string_view(kOptimizerFile);
    NonFiniteWeights non_finite;
    const auto read = [&](size_t i, const ByteSink& sink) {
      const DType dtype = plan.tensors[static_cast<size_t>(file.ids[i])].spec.dtype;
      image.read(file.ids[i], [&](std::span<const std::byte> values) {
        if (holds_weights) non_finite.count(file.stored[i].name, dtype, values);
        sink(values);
      });
    };
    writer.add(file.file, [&](const ByteSink& sink) {
      compose_safetensors(file.stored, metadata, read, sink);
      non_finite.refuse_to_save("the checkpoint");
    });
  }
}

void read_tensors(const std::filesystem::path& checkpoint, const Plan& plan, StateImage& image,
                  Guards guards) {
  for (const Contents& wanted : contents_of(plan)) {
    const std::filesystem::path path = checkpoint / wanted.file;
    const SafetensorsFile file(path);
    check_fit(wanted, file, path, guards);
    for (size_t i = 0; i < wanted.ids.size(); ++i) {
      const std::string& name = wanted.stored[i].name;
      const StoredTensor* stored = file.find(name);
      const bool is_anew = may_differ(name, wanted.file, guards) && name != state_name::kGuardSkipped &&
                           name != state_name::kLearningRateFactor;
      if (stored == nullptr || is_anew) continue;
      std::vector<std::byte> bytes(static_cast<size_t>(stored->end - stored->begin));
      file.read_bytes(*stored, bytes);
      image.write(wanted.ids[i], bytes);
    }
  }
}

/// Tensors that are not in a checkpoint keep their values.
void load_checkpoint(Executable& executable, StateImage& image, const std::filesystem::path& checkpoint,
                     Guards guards) {
  if (guards == Guards::other) begin_guards_anew(executable);
  image.take();
  read_tensors(checkpoint, executable.plan(), image, guards);
  image.restore();
}

void load_checkpoint(Executable& executable, const std::filesystem::path& checkpoint, Guards guards,
                     OtherImages* others) {
  StateImage image(executable, StateImage::usual_memory(executable.plan()), others);
  load_checkpoint(executable, image, checkpoint, guards);
}

}  // namespace trainer
