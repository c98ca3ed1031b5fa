// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "apps/trainer/commands.h"
#include "apps/trainer/inputs.h"
#include "apps/trainer/mask_images.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_network.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/json.h"
#include "core/data/images/image_files.h"
#include "core/host/stop.h"
#include "core/recipe/about.h"
#include "core/recipe/classes.h"
#include "core/recipe/feed.h"
#include "core/session/membership.h"
#include "core/train/prediction.h"

namespace trainer {
namespace {

/// The samples to predict, and the known properties of its classes.
struct Samples {
  std::unique_ptr<DataSource> source;
  std::vector<std::string> class_names;  ///< of the data; may be empty, or shorter than the network's classes
  bool is_labelled = false;
};

/// The reader of the standard output has gone.
struct ReaderGone {};

/// Samples that cannot be read, by number. Filled while batches are made.
class Unreadable {
 public:
  void add(int64_t index, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reasons_[index] = reason;
  }
  std::string reason(int64_t index) const {
    const std::lock_guard lock(mutex_);
    const auto found = reasons_.find(index);
    return found == reasons_.end() ? "" : found->second;
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return reasons_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<int64_t, std::string> reasons_;
};

void check_channels(const Recipe& recipe) {
  const Shape& shape = recipe.model.input;
  if (shape[0] == 1 || shape[0] == 3) return;
  fail_at(recipe.origin_of("model.input"), fmt::format("images have 1 or 3 channels, the network expects "
                                                       "{}; predict a split of the recipe's data (--split)",
                                                       shape[0]));
}

/// Image files: of any size if the transforms bring them to the network's size, otherwise of that size.
std::unique_ptr<DataSource> open_files(const Recipe& recipe, const std::vector<std::string>& words) {
  Shape shape = recipe.model.input;
  Diagnostics ignored;
  const Shape any{shape[0], -1, -1};
  if (TransformChain(recipe.data.images.eval_transform, any, ignored).output_shape() == shape && ignored.ok())
    shape = any;
  return open_image_files(image_files(words), shape, recipe.data.images.max_pixels);
}

Samples open_samples(const TrainedRecipe& trained, const Arguments& arguments) {
  const RunSpec spec = trained.recipe;
  const Recipe& recipe = spec.recipe();
  if (!arguments.inputs.empty())
    return {open_files(recipe, arguments.inputs), known_class_names(recipe.data), false};
  const Split split = arguments.split == "train" ? Split::train : Split::val;
  if (!has_split(recipe.data, split)) {
    throw Error(ExitCode::usage,
                fmt::format("the recipe has no data.{}: name images or folders, or use --split {}",
                            split == Split::val ? "val" : "train", split == Split::val ? "train" : "val"));
  }
  require_data(recipe, split);
  Samples samples{open_stored(recipe.data, source_request(spec, split)), {}, true};
  if (spec.output().size() == 4) samples.is_labelled = false;  // a mask is no label of the image
  require_labelling(spec, split, as_images(*samples.source).has_label_sets());
  require_trained_classes(trained, *samples.source, arguments);
  samples.class_names = samples.source->class_names();
  return samples;
}

/// Writes the objects of a pass, one line each.
class Report {
 public:
  Report(const RunSpec& spec, const Samples& samples, const Arguments& arguments,
         const Unreadable& unreadable)
      : task_(task_of(spec)),
        output_shape_(spec.output()),
        samples_(samples),
        arguments_(arguments),
        unreadable_(unreadable) {
    if (!arguments.images.empty())
      mask_images_.emplace(arguments.images, spec, *samples.source, arguments.inputs);
  }

  std::string batch_lines(const Batch& batch, const Prediction& prediction, int64_t rows) {
    std::string text;
    for (int64_t row = 0; row < batch.real; ++row) {
      const std::span<const float> output = prediction.output(row);
      Json line = sample(batch.step * rows + row, label_in(batch, row, output.size()), output);
      text += line.dump(-1, Json::NotUtf8::replace) + "\n";
    }
    return text;
  }

  int64_t not_finite() const { return not_finite_; }

 private:
  /// A row's label as it is printed: a class, or a list of them.
  static Json label_in(const Batch& batch, int64_t row, size_t classes) {
    if (const auto* labels = batch.find<int32_t>(input_name::kLabels)) return labels[row];
    const float* targets = batch.find<float>(input_name::kTargets) + static_cast<size_t>(row) * classes;
    std::vector<int64_t> set;
    for (size_t c = 0; c < classes; ++c) {
      if (targets[c] > 0) set.push_back(static_cast<int64_t>(c));
    }
    return set;
  }

  Json sample(int64_t index, Json label, std::span<const float> output) {
    Json line;
    const std::string file = samples_.source->sample_file(index);
    if (file.empty()) {
      line["sample"] = index;
    } else {
      line["file"] = file;
    }
    if (const std::string reason = unreadable_.reason(index); !reason.empty()) {
      line["error"] = reason;
      return line;
    }
    if (samples_.is_labelled) line[label.is_array() ? "labels" : "label"] = std::move(label);
    const bool is_finite =
        std::all_of(output.begin(), output.end(), [](float x) { return std::isfinite(x); });
    if (is_finite) {
      add_prediction(line, output);
      if (mask_images_) mask_images_->write(index, output, line);
    } else {
      line["error"] = "the network's output is not finite";
      ++not_finite_;
    }
    return line;
  }

  void add_prediction(Json& line, std::span<const float> output) const {
    const PredictionRequest request{
        .top = arguments_.top > 0 ? std::optional(static_cast<size_t>(arguments_.top)) : std::nullopt,
        .all = arguments_.all,
        .class_names = samples_.class_names,
        .output = output_shape_};
    for (const PredictedField& field : task_.predict(output, request))
      std::visit([&](const auto& value) { line[field.name] = value; }, field.value);
  }

  const Task& task_;
  Shape output_shape_;
  const Samples& samples_;
  const Arguments& arguments_;
  const Unreadable& unreadable_;
  std::optional<MaskImages> mask_images_;
  int64_t not_finite_ = 0;
};

void write_to_output(std::span<const std::byte> bytes) {
  if (!write_at_once({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) throw ReaderGone{};
}

/// The file of --output, if there is one.
std::optional<OutputFile> open_output(const Arguments& arguments, const Recipe& recipe,
                                      const DataSource& source, const TrainedFiles& trained) {
  if (arguments.out.empty()) return std::nullopt;
  std::vector<std::filesystem::path> inputs = input_files(recipe, source, arguments.out);
  inputs.insert(inputs.end(), {trained.model, trained.averages});
  return OutputFile(arguments.out, inputs);
}

}  // namespace

int predict_command(const Arguments& arguments) {
  require_one_process("prediction");
  StopSignals signals(StopSignals::kPass);
  const std::shared_ptr<const Recipe> named = named_recipe(arguments);
  check_prediction(named);
  if (!arguments.inputs.empty()) check_channels(*named);
  const TrainedRecipe trained = with_weights(named, arguments);
  const std::shared_ptr<const Recipe>& recipe = trained.recipe;
  Samples samples = open_samples(trained, arguments);
  TrainedNetwork network(recipe, trained.files, Purpose::predict, samples.source->size());
  const std::optional<OutputFile> output = open_output(arguments, *recipe, *samples.source, network.files());
  // The classes of training, even if the data's folders have changed since.
  if (auto names = class_names_in(trained.about); !names.empty()) samples.class_names = std::move(names);
  Unreadable unreadable;
  const auto pipeline =
      open_pass(network.job(), network.device(), *samples.source,
                [&](int64_t index, const UnreadableSample& found) { unreadable.add(index, found.reason); });
  Prediction prediction(network.executable(), *pipeline);
  Report report(network.job().spec, samples, arguments, unreadable);
  const auto asked = [&] { return signals.asked(); };
  const auto write_all_lines = [&](const ByteSink& sink) {
    signals.watch_loop();
    while (const Batch* batch = prediction.next(asked)) {
      const std::string text = report.batch_lines(*batch, prediction, network.job().spec.batch().micro_batch);
      sink(std::as_bytes(std::span(text)));
    }
    // Thrown here, so that no partial file remains.
    if (prediction.remaining() > 0) signals.throw_if_asked();
  };
  try {
    if (!output || output->is_standard_output()) {
      write_all_lines(write_to_output);
    } else {
      output->write(write_all_lines);
    }
  } catch (const ReaderGone&) {
    return 0;
  }
  const auto failed = [&](ExitCode code, size_t count, const std::string& what) {
    print_error(
        fmt::format("{} of {} samples {}; their lines give the reason", count, samples.source->size(), what));
    return static_cast<int>(code);
  };
  if (report.not_finite() > 0)
    return failed(ExitCode::internal, static_cast<size_t>(report.not_finite()), "have no finite output");
  if (unreadable.count() > 0) return failed(ExitCode::data, unreadable.count(), "could not be read");
  return 0;
}

}  // namespace trainer
