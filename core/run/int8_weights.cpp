// SPDX-License-Identifier: Apache-2.0
#include "core/run/int8_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/weight_bits.h"
#include "core/run/best_weights.h"
#include "core/run/trained_files.h"
#include "core/run/weight_fit.h"
#include "core/run/weights.h"
#include "core/storage/stored_type.h"

namespace trainer {
namespace {

/// Whether weights have the same integers once a normalisation is folded into them, which multiplies those of
/// each output by a number. If not, they are stored as f32 and become integers after that.
bool keeps_integers(const WeightLevels& levels) {
  return !levels.per_tensor && !levels.power_of_two;
}

}  // namespace

std::shared_ptr<const Int8Network> int8_network_in(const std::filesystem::path& weights) {
  const SafetensorsFile file(weights);
  const auto found = file.metadata().find(kQuantizationMetadata);
  if (found == file.metadata().end()) return nullptr;
  Int8Network network = int8_network_from(found->second, weights.string());
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.dtype != "I8" || network.inputs.contains(tensor.name)) continue;
    throw Error(ExitCode::data,
                fmt::format("{}: '{}' has 8-bit weights, and the metadata no range of what they "
                            "multiply; quantise the network again",
                            one_line(weights.string()), one_line(tensor.name)));
  }
  return std::make_shared<const Int8Network>(std::move(network));
}

std::shared_ptr<const Int8Network> int8_network_named(const std::optional<FilePath>& resume) {
  if (!resume || std::filesystem::path(resume->resolved).extension() != ".safetensors") return nullptr;
  if (!is_there(resume->resolved)) return nullptr;  // whoever reads the weights says so
  return int8_network_in(find_trained(*resume).model);
}

std::optional<InputRanges> trained_ranges_in(const std::filesystem::path& weights) {
  const SafetensorsFile file(weights);
  const auto found = file.metadata().find(kRangesMetadata);
  if (found == file.metadata().end()) return std::nullopt;
  return ranges_from(found->second, weights.string());
}

void require_trainable(const std::filesystem::path& weights) {
  if (!SafetensorsFile(weights).metadata().contains(kQuantizationMetadata)) return;
  throw Error(ExitCode::data,
              fmt::format("{} has weights of 8 bits, which training cannot start from; name the weights that "
                          "were quantised",
                          one_line(weights.string())));
}

Int8Weights::Int8Weights(std::span<const Tensor> tensors, const std::filesystem::path& path,
                         const TiedNames& tied, Int8Network network)
    : file_(path), network_(std::move(network)) {
  std::vector<const Tensor*> wanted;
  for (const Tensor& tensor : tensors) {
    if (is_weight(tensor)) wanted.push_back(&tensor);
  }
  const WeightNames names = match_names(wanted, tied, file_);
  require_fit(wanted, path, file_, names, {.patterns = {}, .origin = {}, .tied = tied}, false);
  for (const Tensor* weight : wanted) {
    const bool is_int8 = keeps_integers(network_.weights) && network_.inputs.contains(weight->name);
    const StoredTensor* source = names.find(weight->name);
    const Shape& shape = whole_shape(*weight);
    items_.push_back(
        {.made = {.name = weight->name, .dtype = is_int8 ? "I8" : "F32", .shape = shape}, .source = source});
    if (!is_int8) continue;
    const StoredTensor scale{.name = weight->name + std::string(kScaleSuffix), .shape = {shape[0]}};
    items_.push_back({.made = scale, .source = source, .is_scale = true});
  }
}

void Int8Weights::produce(const Item& item, const ByteSink& sink) const {
  const std::vector<float> values = file_.read_floats(*item.source);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    throw Error(ExitCode::data,
                fmt::format("'{}' has infinite or NaN values, which have no scale; choose weights "
                            "of an earlier checkpoint",
                            one_line(item.source->name)));
  if (item.made.dtype == "F32" && !item.is_scale) return sink(std::as_bytes(std::span(values)));
  const auto outputs = static_cast<size_t>(item.source->shape[0]);
  std::vector<int8_t> integers(values.size());
  std::vector<float> scales(outputs);
  quantize_weights(values, network_.weights, scales, integers.data());
  sink(item.is_scale ? std::as_bytes(std::span(scales)) : std::as_bytes(std::span(integers)));
}

void Int8Weights::compose(const ByteSink& sink) const {
  std::vector<StoredTensor> tensors;
  for (const Item& item : items_) tensors.push_back(item.made);
  StoredMetadata about = file_.metadata();
  about.erase(kBestMetadata);  // of the network in f32
  about.erase(kRangesMetadata);
  about[kQuantizationMetadata] = to_text(network_);
  compose_safetensors(
      tensors, weights_metadata(about), [&](size_t i, const ByteSink& part) { produce(items_[i], part); },
      sink);
}

int64_t Int8Weights::bytes() const {
  int64_t sum = 0;
  for (const Item& item : items_) sum += tensor_bytes(item.made.shape, item.made.dtype).value_or(0);
  return sum;
}

}  // namespace trainer
