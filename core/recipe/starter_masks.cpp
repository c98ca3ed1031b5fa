// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "core/recipe/starter_text.h"

namespace trainer {
namespace {

constexpr int64_t kLongestSide = 128, kFirstChannels = 16, kMostImagesAtOnce = 16;

/// The network's input, in the shape of the images, and the number of its halvings.
struct MaskFit {
  explicit MaskFit(const SplitStatistics& found) {
    const auto rows = static_cast<double>(std::max<int64_t>(1, found.height.median));
    const auto columns = static_cast<double>(std::max<int64_t>(1, found.width.median));
    const double scale = std::min(1.0, static_cast<double>(kLongestSide) / std::max(rows, columns));
    const double shorter = scale * std::min(rows, columns);
    levels = shorter >= 32 ? 3 : shorter >= 16 ? 2 : 1;
    const int64_t step = int64_t{1} << levels;
    const auto rounded = [&](double side) {
      return std::max<int64_t>(2, std::llround(side * scale / static_cast<double>(step))) * step;
    };
    height = rounded(rows), width = rounded(columns);
  }

  int64_t height, width, levels;
};

/// Two convolutions at each size on the way down, and with the results of the way down on the way up.
std::string layers(const MaskFit& fit, int64_t classes) {
  std::string text;
  int64_t channels = kFirstChannels;
  for (int64_t level = 1; level <= fit.levels; ++level, channels *= 2)
    text += fmt::format("    - double_conv: {{name: down{}, channels: {}}}\n    - max_pool2d: 2\n", level,
                        channels);
  text += fmt::format("    - double_conv: {{name: bottom, channels: {}}}\n", channels);
  for (int64_t level = fit.levels; level >= 1; --level) {
    channels /= 2;
    text += fmt::format(
        "    - conv_transpose2d: {{name: up{0}, out_channels: {1}, kernel_size: 2, stride: 2}}\n"
        "    - concat: {{inputs: [up{0}, down{0}]}}\n"
        "    - double_conv: {{name: merge{0}, channels: {1}}}\n",
        level, channels);
  }
  return text +
         fmt::format(
             "    - conv2d: {{name: head, out_channels: {}, kernel_size: 1}}  # the number of classes\n",
             classes);
}

constexpr const char* kTemplates =
    "  templates:\n"
    "    double_conv:\n"
    "      arguments: {channels: }\n"
    "      layers:\n"
    "        - conv2d: {name: conv1, out_channels: \"${channels}\", kernel_size: 3, padding: 1, bias: "
    "false}\n"
    "        - batch_norm: {name: bn1}\n"
    "        - relu\n"
    "        - conv2d: {name: conv2, out_channels: \"${channels}\", kernel_size: 3, padding: 1, bias: "
    "false}\n"
    "        - batch_norm: {name: bn2}\n"
    "        - relu\n";

std::string masks(const Starter& starter) {
  std::string text = "    " + yaml_line("dir", starter.data.masks.string());
  if (!starter.data.val_masks.empty()) text += "    " + yaml_line("val_dir", starter.data.val_masks.string());
  if (!starter.mask_values.empty())
    text += fmt::format("    values: [{}]                  # in the masks, of class 0, 1, …\n",
                        fmt::join(starter.mask_values, ", "));
  return text;
}

std::string class_names(const Starter& starter) {
  const std::string file = starter.data.class_names.string();
  return file.empty() ? "  # class_names: classes.txt           # a line for each class\n"
                      : "  " + yaml_line("class_names", file);
}

}  // namespace

std::string mask_starter_recipe(const Starter& starter) {
  const MaskFit fit(starter.statistics);
  const StarterLength length(starter.samples, !starter.data.val.empty(), kMostImagesAtOnce);
  const double shape = static_cast<double>(fit.width) / static_cast<double>(fit.height);
  return fmt::format(
      "# Written by `trainer init` for {samples} images with masks of {classes} classes. All keys: `trainer "
      "schema "
      "--markdown`;\n"
      "# layers and transforms: `trainer layers`.\n"
      "version: 1\n"
      "run: {{seed: 1}}\n"
      "model:                                 # a U-Net; larger inputs show finer parts, and take longer\n"
      "  input: [3, {height}, {width}]                # channels, height, width; multiples of {step}\n"
      "{templates}"
      "  layers:\n"
      "{layers}"
      "data:\n"
      "  format: image_folder\n"
      "  {train}"
      "  masks:\n"
      "{masks}"
      "{names}"
      "{val}"
      "  augment:                             # of training images and their masks\n"
      "    - random_resized_crop: {{size: [{height}, {width}], scale: [0.5, 1], ratio: [{low:.2f}, "
      "{high:.2f}]}}\n"
      "    - horizontal_flip                  # remove it if left and right differ in meaning\n"
      "{normalize}"
      "  eval_transform:                      # of all others\n"
      "    - resize: [{height}, {width}]\n"
      "{normalize}"
      "training:\n"
      "  max_duration: {epochs}ep                   # epochs; 500ba: batches\n"
      "  global_batch_size: {batch}\n"
      "loss: {{name: cross_entropy, ignore_index: 255}}  # pixels of this value do not count\n"
      "optimizer: {{name: adamw, lr: 0.002, weight_decay: 0.01}}\n"
      "lr_scheduler: {{name: cosine, warmup: 1ep}}\n"
      "validation: {{metrics: [mean_iou, dice]}}\n"
      "logging: {{interval: {interval}ba}}\n",
      fmt::arg("samples", starter.samples), fmt::arg("classes", starter.classes),
      fmt::arg("height", fit.height), fmt::arg("width", fit.width),
      fmt::arg("step", int64_t{1} << fit.levels), fmt::arg("templates", kTemplates),
      fmt::arg("layers", layers(fit, starter.classes)),
      fmt::arg("train", yaml_line("train", starter.data.train.string())), fmt::arg("masks", masks(starter)),
      fmt::arg("names", class_names(starter)), fmt::arg("val", validation_line(starter)),
      fmt::arg("low", shape * 3 / 4), fmt::arg("high", shape * 4 / 3),
      fmt::arg("normalize", normalize_line(starter, std::ssize(starter.statistics.mean))),
      fmt::arg("epochs", length.epochs), fmt::arg("batch", length.batch),
      fmt::arg("interval", length.interval));
}

}  // namespace trainer
