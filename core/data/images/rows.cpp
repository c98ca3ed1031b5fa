// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/data/section.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

struct ImageMemory final : RowMemory {
  Image image;
};

constexpr const char* kCorruption = "corruption";

/// The images of training: which ones, and how they are augmented and mixed.
struct Training {
  Training(const TrainingBatches& batches, const Mix& mix)
      : seed(batches.seed),
        order(batches.order),
        augment_key(random_key(batches.seed, "augment")),
        corruption_key(random_key(batches.seed, kCorruption)) {
    if (mix.any()) mixing.emplace(mix, seed, order.global_batch());
  }

  uint64_t seed;
  TrainingOrder order;
  uint64_t augment_key, corruption_key;
  std::optional<MixingDraw> mixing;
};

class ImageRows final : public RowReader {
 public:
  ImageRows(const ImageSource& source, TransformChain chain, const BatchInputs& inputs)
      : source_(source),
        chain_(std::move(chain)),
        images_(find_input(inputs, input_name::kImages)),
        labels_(find_input(inputs, input_name::kLabels)),
        other_labels_(find_input(inputs, input_name::kOtherLabels)),
        mix_weights_(find_input(inputs, input_name::kMixWeights)),
        targets_(find_input(inputs, input_name::kTargets)),
        clean_images_(find_input(inputs, input_name::kCleanImages)) {
    are_on_device_ = find_input(inputs, input_name::kSampleNumbers).has_value();
    is_bytes_ = images_ && inputs[*images_].dtype == DType::u8;
    has_label_maps_ = labels_ && !inputs[*labels_].row.empty();
    if (targets_) classes_ = inputs[*targets_].row[0];
  }

  void corrupt(const TransformList& corruption) { corruption_ = &corruption; }

  void train(const TrainingBatches& batches, const Mix& mix) {
    // A stage of a pipeline may have the images alone, the labels alone, or neither.
    const bool has_both_labels = targets_ || !labels_ || (other_labels_ && mix_weights_);
    if ((mix.mixup > 0 && is_bytes_) || (mix.any() && (!has_both_labels || are_on_device_)))
      throw std::logic_error("mixup blends numbers, and a device mixes none of its samples");
    training_.emplace(batches, mix);
  }

  std::unique_ptr<RowMemory> make_memory() const override {
    auto memory = std::make_unique<ImageMemory>();
    memory->image = chain_.make_image();
    return memory;
  }

  void expect(int64_t first, int64_t count) const override { source_.expect(first, count); }

  void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const override {
    Image& image = static_cast<ImageMemory&>(memory).image;
    load(place, image);
    if (clean_images_) {
      chain_.write(image, batch.row<float>(*clean_images_, row));
      if (corruption_ != nullptr) corrupt(place, image);
    }
    if (images_) {
      with_pixels(batch, row, [&](auto* pixels) { chain_.write(image, pixels); });
    }
    write_labels(batch, row, image);
    if (training_ && training_->mixing) mix(place, batch, row, image);
  }

 private:
  void load(const RowPlace& place, Image& image) const {
    const uint64_t key = training_ ? training_->augment_key : 0;  // evaluation has no random transforms
    const RandomStream random(key, static_cast<uint32_t>(place.epoch), static_cast<uint32_t>(place.draw));
    chain_.read(source_, place.sample, random, image);
  }

  void corrupt(const RowPlace& place, Image& image) const {
    const uint64_t key = training_ ? training_->corruption_key : random_key(0, kCorruption);
    const int64_t sample = training_ ? place.draw : place.sample;
    RandomStream random(key, static_cast<uint32_t>(place.epoch), static_cast<uint32_t>(sample));
    for (const auto& step : *corruption_) step->apply(image, random);
  }

  template <class Visit>
  void with_pixels(const Batch& batch, int64_t row, const Visit& visit) const {
    if (is_bytes_) {
      visit(batch.row<uint8_t>(*images_, row));
    } else {
      visit(batch.row<float>(*images_, row));
    }
  }

  void write_labels(const Batch& batch, int64_t row, const Image& image) const {
    if (has_label_maps_) {
      source_.map_labels(image, batch.row<int32_t>(*labels_, row));
    } else if (labels_) {
      *batch.row<int32_t>(*labels_, row) = image.label;
    }
    if (other_labels_) *batch.row<int32_t>(*other_labels_, row) = image.label;
    if (mix_weights_) *batch.row<float>(*mix_weights_, row) = 1;
    if (targets_) {
      float* target = batch.row<float>(*targets_, row);
      std::fill(target, target + classes_, 0.0f);
      for (const int32_t c : source_.label_set(image)) target[c] = 1;
    }
  }

  /// The partner is loaded once more, as its own row has it: rows of one micro-batch do not depend on others.
  void mix(const RowPlace& place, const Batch& batch, int64_t row, Image& image) const {
    const Mixing mixing = training_->mixing->draw(place.step, place.index, image.height, image.width);
    if (mixing.mix_weight == 1) return;
    load(shuffled_place(training_->seed, training_->order, place.step, mixing.partner), image);
    if (images_) with_pixels(batch, row, [&](auto* pixels) { chain_.mix_into(image, mixing, pixels); });
    if (targets_) return mix_label_sets(mixing.mix_weight, batch.row<float>(*targets_, row), image);
    if (!labels_) return;
    auto &label = *batch.row<int32_t>(*labels_, row), &other = *batch.row<int32_t>(*other_labels_, row);
    auto& weight = *batch.row<float>(*mix_weights_, row);
    other = image.label;
    weight = mixing.mix_weight;
    if (mixing.mix_weight >= 0.5f) return;
    std::swap(label, other);
    weight = 1 - mixing.mix_weight;
  }

  /// Each class by the share of the samples that have it: the loss of both is then mixed in these shares.
  void mix_label_sets(float weight, float* target, const Image& partner) const {
    for (int64_t c = 0; c < classes_; ++c) target[c] *= weight;
    for (const int32_t c : source_.label_set(partner)) target[c] += 1 - weight;
  }

  const ImageSource& source_;
  TransformChain chain_;
  std::optional<size_t> images_, labels_, other_labels_, mix_weights_, targets_, clean_images_;
  const TransformList* corruption_ = nullptr;
  int64_t classes_ = 0;
  bool is_bytes_ = false, has_label_maps_ = false, are_on_device_ = false;
  std::optional<Training> training_;
};

}  // namespace

std::unique_ptr<RowReader> make_image_rows(const ImageSource& source, TransformChain chain,
                                           const BatchInputs& inputs, const TrainingBatches* training,
                                           const Mix& mix, const TransformList* corruption) {
  auto rows = std::make_unique<ImageRows>(source, std::move(chain), inputs);
  if (corruption != nullptr) rows->corrupt(*corruption);
  if (training != nullptr) rows->train(*training, mix);
  return rows;
}

std::unique_ptr<RowReader> ImageSource::rows(const RowRequest& request) const {
  Diagnostics diagnostics;
  TransformChain chain(request.section.images.transform_list(request.split), sample_shape(),
                       request.network_shape[0], diagnostics);
  if (chain.output_shape() != request.network_shape && diagnostics.ok()) {
    diagnostics.error(request.network_origin,
                      fmt::format("the network expects samples of shape {}, the data provides {}",
                                  to_string(request.network_shape), to_string(chain.output_shape())));
  }
  diagnostics.throw_if_any();
  if (find_input(request.inputs, input_name::kTargets) && !has_label_sets())
    throw Error(
        ExitCode::recipe,
        "data.labels: expected a file with a column of 0 and 1 for each class, found one label for each "
        "image");
  return make_image_rows(*this, std::move(chain), request.inputs, request.training,
                         request.section.images.mix, &request.section.images.corruption);
}

}  // namespace trainer
