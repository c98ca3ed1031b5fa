// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "core/config/value.h"
#include "core/data/source.h"
#include "core/recipe/starter_text.h"
#include "core/tasks/confusion_matrix.h"

namespace trainer {
namespace {

/// A sample's form for the network.
struct Fit {
  explicit Fit(const Starter& starter) : is_resized(!is_fixed(starter.shape)), shape(starter.shape) {
    if (is_resized) {
      const int64_t side = std::min(starter.statistics.height.median, starter.statistics.width.median);
      const int64_t taken = side <= 48 ? 32 : side <= 160 ? 64 : 128;
      shape = {starter.shape[0], taken, taken};
    }
  }

  bool is_resized;
  Shape shape;  // (C, H, W)
};

/// Two convolutions that halve an image, and their reverse.
std::string autoencoder_layers(const Fit& fit) {
  return fmt::format(
      "    - conv2d: {{out_channels: 32, kernel_size: 3, stride: 2, padding: 1}}\n"
      "    - relu\n"
      "    - conv2d: {{out_channels: 16, kernel_size: 3, stride: 2, padding: 1}}\n"
      "    - relu\n"
      "    - conv_transpose2d: {{out_channels: 32, kernel_size: 2, stride: 2}}\n"
      "    - relu\n"
      "    - conv_transpose2d: {{out_channels: {}, kernel_size: 2, stride: 2}}  # the image's channels\n",
      fit.shape[0]);
}

/// The loss and the metrics that suit the labels.
std::string measures(const Starter& starter) {
  if (starter.data.is_unlabelled) return "loss: {name: mse}\nvalidation: {metrics: []}\n";
  if (starter.has_label_sets)
    return "loss: {name: binary_cross_entropy}\nvalidation: {metrics: [micro_f1, macro_f1, exact_match]}\n";
  return starter.classes > kMostConfusionClasses ? "" : "validation: {metrics: [top1, macro_f1]}\n";
}

/// A convolution, a normalisation and a halving for each factor of two down to 4 rows or columns.
std::string layers(const Fit& fit, int64_t classes) {
  std::string text;
  int64_t side = std::min(fit.shape[1], fit.shape[2]), channels = 16;
  for (; side >= 8; side /= 2, channels = std::min<int64_t>(2 * channels, 128)) {
    text += fmt::format(
        "    - conv2d: {{out_channels: {}, kernel_size: 3, padding: 1, bias: false}}\n"
        "    - batch_norm\n    - relu\n    - max_pool2d: 2\n",
        channels);
  }
  if (!text.empty()) text += "    - global_avg_pool2d\n";
  return text +
         fmt::format(
             "    - flatten\n    - linear: {{name: head, out_features: {}}}  # the number of classes\n",
             classes);
}

std::string transforms(const Fit& fit, const Starter& starter) {
  const std::string normalize = normalize_line(starter);
  if (!fit.is_resized) {
    const std::string augment =
        starter.data.are_photographs
            ? "    - random_crop: {size: 32, padding: 4}\n    - horizontal_flip\n"
            : "    # - horizontal_flip    # if a mirrored image is of the same class\n";
    return "  augment:                            # of training images\n" + augment + normalize +
           "  eval_transform:                     # of all others\n" + normalize;
  }
  return fmt::format(
      "  augment:                            # of training images\n"
      "    - random_resized_crop: {{size: {0}, scale: [0.5, 1]}}\n"
      "    - horizontal_flip                 # remove it if a mirrored image is of another class\n"
      "{1}"
      "  eval_transform:                     # of all others\n"
      "    - resize: {2}\n"
      "    - center_crop: {0}\n"
      "{1}",
      fit.shape[1], normalize, fit.shape[1] + fit.shape[1] / 8);
}

std::string numbers(const std::vector<double>& values, double least) {
  std::vector<std::string> texts;
  for (double value : values) texts.push_back(fmt::format("{:.4f}", std::max(value, least)));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

std::string yaml_line(const std::string& key, const std::string& text) {
  Value value, map;
  value.kind = Value::Kind::scalar;
  value.text = text;
  map.kind = Value::Kind::map;
  map.entries.push_back({key, {}, value});
  return to_yaml(map, false);
}

std::string normalize_line(const Starter& starter) {
  // A channel of one value alone has no deviation to divide by.
  return fmt::format("    - normalize: {{mean: {}, std: {}}}\n", numbers(starter.statistics.mean, 0),
                     numbers(starter.statistics.deviation, 1e-3));
}

std::string validation_line(const Starter& starter) {
  if (!starter.data.val.empty()) return "  " + yaml_line("val", starter.data.val.string());
  return fmt::format("  val_fraction: {}                   # set aside for validation\n",
                     kStarterValFraction);
}

StarterLength::StarterLength(const Starter& starter, int64_t most_at_once) {
  const double share = starter.data.val.empty() ? 1 - kStarterValFraction : 1.0;
  training = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(starter.samples) * share));
  batch = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(training / 8, 1, most_at_once))));
  const int64_t steps_per_epoch = std::max<int64_t>(1, training / batch);
  epochs = std::clamp<int64_t>(kStarterSteps / steps_per_epoch, 5, 40);
  interval = std::clamp<int64_t>(steps_per_epoch / 4, 1, 50);
}

std::string starter_recipe(const Starter& starter) {
  if (!starter.data.masks.empty()) return mask_starter_recipe(starter);
  const Fit fit(starter);
  const std::string labels =
      starter.data.labels.empty() ? "" : "  " + yaml_line("labels", starter.data.labels);
  const std::string content = starter.data.is_unlabelled
                                  ? "images without labels: an autoencoder"
                                  : fmt::format("samples of {} classes", starter.classes);
  const StarterLength length(starter, 64);
  return fmt::format(
      "# Written by `trainer init` for {samples} {content}. All keys: `trainer schema "
      "--markdown`;\n"
      "# layers and transforms: `trainer layers`.\n"
      "version: 1\n"
      "run: {{seed: 1}}\n"
      "model:\n"
      "  input: [{shape}]                # channels, height, width\n"
      "  layers:\n"
      "{layers}"
      "data:\n"
      "  format: {format}\n"
      "  {train}"
      "{labels}"
      "{val}"
      "{transforms}"
      "training:\n"
      "  max_duration: {epochs}ep                  # epochs; 500ba: batches\n"
      "  global_batch_size: {batch}\n"
      "{measures}"
      "optimizer: {{name: adamw, lr: 0.002, weight_decay: 0.01}}\n"
      "lr_scheduler: {{name: cosine, warmup: 1ep}}\n"
      "logging: {{interval: {interval}ba}}\n",
      fmt::arg("samples", starter.samples), fmt::arg("content", content),
      fmt::arg("shape", fmt::join(fit.shape, ", ")),
      fmt::arg("layers", starter.data.is_unlabelled ? autoencoder_layers(fit) : layers(fit, starter.classes)),
      fmt::arg("labels", labels), fmt::arg("measures", measures(starter)),
      fmt::arg("format", starter.data.format),
      fmt::arg("train", yaml_line("train", starter.data.train.string())),
      fmt::arg("val", validation_line(starter)), fmt::arg("transforms", transforms(fit, starter)),
      fmt::arg("epochs", length.epochs), fmt::arg("batch", length.batch),
      fmt::arg("interval", length.interval));
}

}  // namespace trainer
