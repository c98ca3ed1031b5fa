// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/data/source.h"
#include "core/recipe/starter_text.h"
#include "core/tasks/confusion_matrix.h"

namespace trainer {
namespace {

/// A sample's form for the network.
struct Fit {
  explicit Fit(const Starter& starter) : is_resized(!is_fixed(starter.shape)), shape(starter.shape) {
    if (starter.network) {
      shape = starter.network->shape;
      is_resized = starter.shape[1] != shape[1] || starter.shape[2] != shape[2];
    } else if (is_resized) {
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

std::string network_keys(const StarterNetwork& network, int64_t classes) {
  const std::string weights = network.weights.string();
  return fmt::format("  {}  num_classes: {}\n{}", yaml_line("network", network.name), classes,
                     weights.empty() ? "" : "  " + yaml_line("initial_weights", weights));
}

std::string own_layers(const Fit& fit, const Starter& starter) {
  return fmt::format("  input: [{}]                # channels, height, width\n  layers:\n{}",
                     fmt::join(fit.shape, ", "),
                     starter.data.is_unlabelled ? autoencoder_layers(fit) : layers(fit, starter.classes));
}

/// Published weights expect the statistics of their own training; others are the data's.
std::string normalize(const Fit& fit, const Starter& starter) {
  const bool is_trained = starter.network && !starter.network->weights.empty();
  if (!is_trained || fit.shape[0] != 3) return normalize_line(starter, fit.shape[0]);
  return "    - normalize: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}  # ImageNet; as the "
         "weights need\n";
}

std::string transforms(const Fit& fit, const Starter& starter) {
  const std::string normalized = normalize(fit, starter);
  const std::string head = "  augment:                            # of training images\n",
                    eval_head = "  eval_transform:                     # of all others\n";
  const int64_t side = fit.shape[1];
  const auto whole = [side](int64_t border) {
    return fmt::format("    - resize: {}\n    - center_crop: {}\n", side + border, side);
  };
  const std::string flip = "    # - horizontal_flip    # if a mirrored image is of the same class\n";
  if (!fit.is_resized) {
    const std::string augment = starter.data.are_photographs
                                    ? "    - random_crop: {size: 32, padding: 4}\n    - horizontal_flip\n"
                                    : flip;
    return head + augment + normalized + eval_head + normalized;
  }
  const bool is_drawn = is_fixed(starter.shape) && !starter.data.are_photographs;
  if (is_drawn) return head + whole(0) + flip + normalized + eval_head + whole(0) + normalized;
  return head +
         fmt::format(
             "    - random_resized_crop: {{size: {}, scale: [0.5, 1]}}\n"
             "    - horizontal_flip                 # remove it if a mirrored image is of another class\n",
             side) +
         normalized + eval_head + whole(side / 8) + normalized;
}

/// The loss and the metrics that suit the labels.
std::string measures(const Starter& starter) {
  if (starter.data.is_unlabelled) return "loss: {name: mse}\nvalidation: {metrics: []}\n";
  if (starter.has_label_sets)
    return "loss: {name: binary_cross_entropy}\nvalidation: {metrics: [micro_f1, macro_f1, exact_match]}\n";
  return starter.classes > kMostConfusionClasses ? "" : "validation: {metrics: [top1, macro_f1]}\n";
}

/// Trained weights need smaller steps than new ones.
double learning_rate(const Starter& starter) {
  if (!starter.network) return 0.002;
  return starter.network->weights.empty() ? 0.001 : 0.0001;
}

}  // namespace

std::string starter_recipe(const Starter& starter) {
  if (!starter.data.masks.empty()) return mask_starter_recipe(starter);
  const Fit fit(starter);
  const std::string labels =
      starter.data.labels.empty() ? "" : "  " + yaml_line("labels", starter.data.labels);
  const std::string content = starter.data.is_unlabelled
                                  ? "images without labels: an autoencoder"
                                  : fmt::format("samples of {} classes", starter.classes);
  const StarterLength length(starter.samples, !starter.data.val.empty(), 64);
  return fmt::format(
      "# Written by `trainer init` for {samples} {content}. All keys: `trainer schema "
      "--markdown`;\n"
      "# layers and transforms: `trainer layers`.\n"
      "version: 1\n"
      "run: {{seed: 1}}\n"
      "model:\n"
      "{network}"
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
      "optimizer: {{name: adamw, lr: {lr}, weight_decay: 0.01}}\n"
      "lr_scheduler: {{name: cosine, warmup: 1ep}}\n"
      "logging: {{interval: {interval}ba}}\n",
      fmt::arg("samples", starter.samples), fmt::arg("content", content),
      fmt::arg("network",
               starter.network ? network_keys(*starter.network, starter.classes) : own_layers(fit, starter)),
      fmt::arg("labels", labels), fmt::arg("measures", measures(starter)),
      fmt::arg("lr", learning_rate(starter)), fmt::arg("format", starter.data.format),
      fmt::arg("train", yaml_line("train", starter.data.train.string())),
      fmt::arg("val", validation_line(starter)), fmt::arg("transforms", transforms(fit, starter)),
      fmt::arg("epochs", length.epochs), fmt::arg("batch", length.batch),
      fmt::arg("interval", length.interval));
}

}  // namespace trainer
