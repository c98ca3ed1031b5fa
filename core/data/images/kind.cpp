// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/kind.h"

#include <fmt/format.h>

#include <numeric>
#include <type_traits>
#include <utility>

#include "core/data/exclude.h"
#include "core/data/formats.h"
#include "core/data/images/sample_weights.h"
#include "core/data/images/subset.h"
#include "core/data/images/tolerant.h"
#include "core/data/images/transforms/table.h"
#include "core/data/subset.h"

namespace trainer {
namespace {

std::unique_ptr<ImageSource> as_images(std::unique_ptr<DataSource> source) {
  as_images(*source);  // throws otherwise
  return std::unique_ptr<ImageSource>(static_cast<ImageSource*>(source.release()));
}

/// If files of the format may have any size, the transforms must bring all to the network's size.
void check_split(const DataSection& section, Split split, const Shape& network_shape,
                 const OriginOf& origin_of, Diagnostics& diagnostics) {
  const DataFormat& format = section.chosen_format();
  // Files that no split reads may have the network's own size: `trainer predict` takes single images with it.
  const bool is_read = has_split(section, split);
  const Shape expected = is_read ? format.shape().value_or(network_shape) : network_shape;
  const size_t problems = diagnostics.problems().size();
  const Shape made =
      TransformChain(section.images.transform_list(split), expected, network_shape[0], diagnostics)
          .output_shape();
  const bool is_known = format.shape().has_value() || !format.reads_files();
  const bool is_reported = diagnostics.problems().size() != problems;
  if (!is_read || !is_known || is_reported || made == network_shape) return;
  const Origin origin = origin_of(split == Split::train ? "data.augment" : "data.eval_transform");
  if (is_fixed(made)) {
    diagnostics.error(origin,
                      fmt::format("produces samples of shape {}, the network expects {} (model.input)",
                                  to_string(made), to_string(network_shape)));
  } else {
    diagnostics.error(origin, fmt::format("images of format {} differ in size; begin the list with "
                                          "random_resized_crop, or resize and center_crop",
                                          section.format));
  }
}

constexpr const char* kBalanced = "balanced";

/// The weights of the samples of a whole source, then of the `chosen` ones; empty: there are none.
std::vector<double> weights_for(const ImageKind& images, const SourceRequest& request,
                                const ImageSource& source, const std::vector<int64_t>* chosen) {
  if (!images.sample_weights || request.split != Split::train) return {};
  const bool is_balanced = images.sample_weights->written == kBalanced;
  std::vector<int32_t> labels = is_balanced ? labels_of(source) : std::vector<int32_t>();
  if (is_balanced && labels.empty())
    throw Error(ExitCode::recipe, "data.sample_weights: balanced needs samples with one label each");
  std::vector<double> weights =
      is_balanced ? std::vector<double>() : read_sample_weights(images.sample_weights->resolved, source);
  if (chosen != nullptr) {
    const auto take = [&](auto& all) {
      std::remove_reference_t<decltype(all)> part;
      for (const int64_t sample : *chosen) part.push_back(all[static_cast<size_t>(sample)]);
      all = std::move(part);
    };
    is_balanced ? take(labels) : take(weights);
  }
  return is_balanced ? balancing_weights(labels) : weights;
}

void check_order(const ImageKind& images, Diagnostics& diagnostics) {
  for (const TransformList* list : {&images.augment, &images.eval_transform}) {
    for (const auto& step : *list) {
      if (step->is_terminal() && step != list->back())
        diagnostics.error(step->origin, "must be the last of its list");
      if (step->pixel_window() != nullptr && step != list->front())
        diagnostics.error(step->origin,
                          "must be the first of its list: other transforms get 8 bits of each value");
    }
  }
  for (const auto& step : images.eval_transform) {
    if (step->is_random()) {
      diagnostics.error(step->origin,
                        "is random, but evaluation must be deterministic; move it to data.augment");
    }
  }
}

void check_masks(const ImageKind& images, const OriginOf& origin_of, Diagnostics& diagnostics) {
  check_masks_follow(images.augment, diagnostics);
  check_masks_follow(images.eval_transform, diagnostics);
  if (images.mix.any())
    diagnostics.error(origin_of("data.mix"),
                      "mixes two images, which masks cannot follow; remove it, or data.masks");
}

/// The samples of a split of those of training.
std::vector<int64_t> samples_of_split(const DataSection& section, const SourceRequest& request, int64_t size,
                                      SplitBy by) {
  if (!request.stratifies) by.labels.clear(), by.label_sets = {};
  return chosen_samples(size, std::move(by), section.split_choice(request.split, request.seed));
}

/// The stored samples that data.exclude leaves out. `source`: the images, needed if they have names.
std::vector<int64_t> excluded_samples(const DataSection& section, const SourceRequest& request, int64_t size,
                                      const ImageSource* source) {
  if (!section.exclude) return {};
  StoredSamples samples{
      .split = stored_in(section, request.split), .size = size, .has_val_file = !section.divides_train()};
  if (section.chosen_format().names_samples())
    samples.name = [source](int64_t index) { return source->sample_name(index); };
  return read_excluded(section.exclude->resolved, samples);
}

std::vector<int64_t> all_samples(int64_t size) {
  std::vector<int64_t> samples(static_cast<size_t>(size));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  return samples;
}

/// The stored samples of a split, and those that data.exclude leaves out of both; ascending.
struct SplitNumbers {
  std::vector<int64_t> samples, excluded;
};

/// `source`: as for excluded_samples. Throws Error (exit 65) if none is left.
SplitNumbers numbers_of(const DataSection& section, const SourceRequest& request, int64_t size, SplitBy by,
                        const ImageSource* source) {
  SplitNumbers numbers{.samples = !section.divides_train()
                                      ? all_samples(size)
                                      : samples_of_split(section, request, size, std::move(by)),
                       .excluded = excluded_samples(section, request, size, source)};
  if (!section.exclude) return numbers;
  numbers.samples = left_of(numbers.samples, numbers.excluded, section.exclude->resolved, request.split);
  return numbers;
}

/// A network that was trained on one range would see another.
void check_windows(const ImageKind& images, const OriginOf& origin_of, Diagnostics& diagnostics) {
  const PixelWindow *augment = pixel_window(images.augment),
                    *evaluation = pixel_window(images.eval_transform);
  const bool is_one = augment != nullptr && evaluation != nullptr && *augment == *evaluation;
  if ((augment == nullptr && evaluation == nullptr) || is_one) return;
  diagnostics.error(
      origin_of(evaluation == nullptr ? "data.augment" : "data.eval_transform"),
      "data.augment and data.eval_transform must begin with the same window, or both without one");
}

}  // namespace

void ImageKind::declare(Fields& fields) {
  fields.add("max_pixels", &max_pixels, "images with more pixels than this are treated as unreadable")
      .at_least(1);
  fields
      .add("cache", &cache,
           "device: keep all samples in GPU memory and augment them there; none: workers send batches")
      .one_of({"none", "device"})
      .does_not_affect_results();
  fields
      .add("stratify", &stratify,
           "true: val_fraction takes its share of each class; false: of all samples, as in runs begun before "
           "this key")
      .absent_as("false");
  fields
      .add("sample_weights", &sample_weights,
           "weighted sampling: an epoch draws as many training samples as there are, with replacement. "
           "balanced: "
           "each class as often; or a file with the columns file,weight, or a weight on each line in the "
           "order "
           "of the samples")
      .path_where([](const std::string& text) { return text != kBalanced; })
      .left_to_samples()
      .absent_as("null");
  fields.components("augment", augment, transforms(), "transforms of training samples, in order");
  fields.components("eval_transform", eval_transform, transforms(),
                    "transforms of validation samples, in order");
  fields
      .components(
          "corruption", corruption, transforms(),
          "with loss mse: transforms of the network's input after all others, which the target does not "
          "have, as of a denoising autoencoder; in validation with the same noise each time")
      .absent_if_unset();
  fields.section("mix", "mixes training samples and their labels within a batch",
                 [this](Fields& section) { mix.declare(section); });
}

void ImageKind::check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                      Diagnostics& diagnostics) const {
  const size_t problems = diagnostics.problems().size();
  check_order(*this, diagnostics);
  if (section.chosen_format().reads_masks()) check_masks(*this, origin_of, diagnostics);
  if (sample_weights && sample_weights->empty())
    diagnostics.error(origin_of("data.sample_weights"), "must be balanced or the path of a file, got ''");
  if (sample_weights && cache == "device")
    diagnostics.error(
        origin_of("data.cache"),
        "device augments each sample once in an epoch, and data.sample_weights may draw one several "
        "times; write none");
  if (!corruption.empty() && cache == "device")
    diagnostics.error(origin_of("data.cache"),
                      "device does not support data.corruption, which workers do; write none");
  if (network_shape.size() != 3) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [channels, height, width], the shape of the images of data.format {}, got "
                    "{} number{}",
                    section.format, network_shape.size(), network_shape.size() == 1 ? "" : "s"));
    return;
  }
  for (const Split split : {Split::train, Split::val})
    check_split(section, split, network_shape, origin_of, diagnostics);
  check_corruption(corruption, network_shape, diagnostics);
  if (diagnostics.problems().size() == problems) check_windows(*this, origin_of, diagnostics);
}

std::unique_ptr<DataSource> ImageKind::take_split(std::unique_ptr<DataSource> source,
                                                  const DataSection& section, const SourceRequest& request,
                                                  const ErrorBudget* budget) const {
  std::unique_ptr<ImageSource> images = as_images(std::move(source));
  std::vector<double> weights;
  if (section.divides_train() || section.exclude) {
    SplitNumbers numbers =
        numbers_of(section, request, images->size(),
                   {labels_of(*images), label_sets_of(*images), groups_of(*images)}, images.get());
    if (budget != nullptr) weights = weights_for(*this, request, *images, &numbers.samples);
    images = take_samples(std::move(images), std::move(numbers.samples), std::move(numbers.excluded));
  } else if (budget != nullptr) {
    weights = weights_for(*this, request, *images, nullptr);
  }
  if (budget == nullptr) return images;
  return tolerate_unreadable(std::move(images), *budget, std::move(weights));
}

/// The numbers of the chosen samples are kept.
SourceInfo ImageKind::take_split(const SourceInfo& info, const DataSection& section,
                                 const SourceRequest& request) const {
  SourceInfo part = info;
  // The weights, and their sums for the draw.
  if (sample_weights && request.split == Split::train)
    part.resident_bytes += 2 * info.size * static_cast<int64_t>(sizeof(double));
  if (!section.divides_train() && !section.exclude) return part;
  const std::unique_ptr<DataSource> named = section.exclude && section.chosen_format().names_samples()
                                                ? section.chosen_format().open(section, request)
                                                : nullptr;
  const auto [samples, excluded] =
      numbers_of(section, request, info.size, {info.labels, info.label_sets, info.groups},
                 named ? &as_images(*named) : nullptr);
  part.resident_bytes += static_cast<int64_t>(excluded.size() * sizeof(int64_t));
  part.label_sets = {};
  if (!section.divides_train() && info.label_sets.size() > 0) {
    for (const int64_t sample : samples) part.label_sets.add(info.label_sets[static_cast<size_t>(sample)]);
  }
  part.size = static_cast<int64_t>(samples.size());
  for (auto* numbers : {&part.labels, &part.groups}) {
    if (numbers->empty()) continue;
    std::vector<int32_t> all = std::move(*numbers);
    numbers->clear();
    for (const int64_t sample : samples) numbers->push_back(all[static_cast<size_t>(sample)]);
  }
  if (section.divides_train() && request.split == Split::val)
    part.skipped = {};  // training names them, as both have one folder
  part.resident_bytes += part.size * static_cast<int64_t>(sizeof(int64_t));
  return part;
}

}  // namespace trainer
