// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/predict_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/printable.h"
#include "core/data/images/image_files.h"
#include "core/recipe/about.h"
#include "core/recipe/assemble.h"
#include "core/recipe/classes.h"
#include "core/recipe/job.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The name of a folder.
fs::path folder_name(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

/// The class that names the nearest folder of a file, from `word` of the command line on: the file, or a
/// folder above it.
std::optional<int32_t> folder_class(const fs::path& file, const fs::path& word,
                                    const std::vector<std::string>& names) {
  const fs::path folders = file == word ? folder_name(fs::absolute(file).parent_path())
                                        : folder_name(word) / file.lexically_relative(word).parent_path();
  std::vector<std::string> parts;
  for (const fs::path& part : folders) parts.push_back(part.string());
  std::ranges::reverse(parts);  // the innermost folder first
  for (const std::string& part : parts) {
    if (const auto found = std::ranges::find(names, part); found != names.end())
      return static_cast<int32_t>(found - names.begin());
  }
  return std::nullopt;
}

/// Image files have any size if the transforms bring them to the network's size, otherwise that size.
Shape file_shape(const Recipe& recipe) {
  const Shape& shape = recipe.model.input;
  Diagnostics ignored;
  const Shape any{shape[0], -1, -1};
  const TransformChain chain(recipe.data.images.eval_transform, any, ignored);
  return chain.output_shape() == shape && ignored.ok() ? any : shape;
}

/// Files whose paths will come. Folders that they are in are not labels: the form of a line does not change.
PredictSamples open_arriving(const Recipe& recipe, std::vector<std::string> names) {
  PredictSamples samples;
  auto source = open_arriving_files(file_shape(recipe), recipe.data.images.max_pixels);
  samples.arriving = source.get();
  samples.source = std::move(source);
  samples.class_names = std::move(names);
  return samples;
}

PredictSamples open_files(const Recipe& recipe, const std::vector<std::string>& words, const Task& task,
                          std::vector<std::string> names) {
  PredictSamples samples;
  const bool has_one_label = task.judges() && !task.has_label_sets();
  std::vector<std::string> files;
  for (const std::string& word : words) {
    for (std::string& file : image_files({word})) {
      const auto label = has_one_label ? folder_class(file, word, names) : std::nullopt;
      if (label) {
        samples.folder_labels.push_back(*label);
      } else if (samples.unlabelled.empty()) {
        samples.unlabelled = file;
      }
      files.push_back(std::move(file));
    }
  }
  if (!samples.unlabelled.empty()) samples.folder_labels.clear();
  samples.source = open_image_files(std::move(files), file_shape(recipe), recipe.data.images.max_pixels);
  samples.class_names = std::move(names);
  return samples;
}

/// Files of tables, whose rows are samples.
PredictSamples open_tables(const TrainedRecipe& trained, const Arguments& arguments) {
  const RunSpec spec = trained.recipe;
  const DataSection& data = spec.recipe().data;
  PredictSamples samples;
  samples.source = data.chosen_format().open_named({arguments.inputs, arguments.predict.id}, data,
                                                   source_request(spec, Split::val));
  return samples;
}

PredictSamples open_split(const TrainedRecipe& trained, const Task& task, const Arguments& arguments) {
  const RunSpec spec = trained.recipe;
  const Recipe& recipe = spec.recipe();
  const Split split = arguments.split == "train" ? Split::train : Split::val;
  if (!has_split(recipe.data, split)) {
    throw Error(ExitCode::usage,
                fmt::format("the recipe has no data.{}: name images or folders, or use --split {}",
                            split == Split::val ? "val" : "train", split == Split::val ? "train" : "val"));
  }
  require_data(recipe, split);
  PredictSamples samples{.source = open_stored(recipe.data, source_request(spec, split)),
                         .class_names = {},
                         .is_labelled = task.judges(),
                         .folder_labels = {},
                         .unlabelled = {}};
  if (task.classes(spec.output()) == 0) return samples;  // it has no use for labels
  if (const auto* images = dynamic_cast<const ImageSource*>(samples.source.get()))
    require_labelling(spec, split, images->has_label_sets());
  require_trained_classes(trained, *samples.source, arguments);
  return samples;
}

}  // namespace

void check_channels(const Recipe& recipe) {
  const Shape& shape = recipe.model.input;
  if (shape[0] == 1 || shape[0] == 3) return;
  fail_at(recipe.origin_of("model.input"), fmt::format("images have 1 or 3 channels, the network expects "
                                                       "{}; predict a split of the recipe's data (--split)",
                                                       shape[0]));
}

void PredictSamples::take(std::vector<std::string> paths, int64_t rows) {
  answered += part.count;
  part = {.first = 0, .count = static_cast<int64_t>(paths.size())};
  paths.resize(static_cast<size_t>(rows));  // the others are padding
  arriving->replace(std::move(paths));
}

PredictSamples open_samples(const TrainedRecipe& trained, const Task& task, const Arguments& arguments) {
  // The classes of training, even if the data's folders have changed since.
  std::vector<std::string> names = class_names_in(trained.about);
  if (!arguments.inputs.empty()) {
    if (names.empty()) names = known_class_names(trained.recipe->data);
    if (arguments.predict.reads_paths) return open_arriving(*trained.recipe, std::move(names));
  }
  PredictSamples samples = arguments.inputs.empty() ? open_split(trained, task, arguments)
                           : is_of_table(trained.recipe->model.kind())
                               ? open_tables(trained, arguments)
                               : open_files(*trained.recipe, arguments.inputs, task, names);
  samples.class_names = names.empty() ? samples.source->class_names() : std::move(names);
  samples.part = arguments.predict.part.of(samples.source->size());
  return samples;
}

}  // namespace trainer
