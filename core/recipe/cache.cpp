// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/cache.h"

#include <fmt/format.h>

#include "core/recipe/job.h"

namespace trainer {
namespace {

/// A list of transforms as the device takes it.
SampleSteps device_steps(const Recipe& recipe, const TransformList& list, Shape shape) {
  SampleSteps steps{.key = random_key(static_cast<uint64_t>(recipe.run.seed), "augment")};
  Diagnostics diagnostics;
  for (const auto& transform : list) {
    if (transform->is_terminal()) continue;
    const std::optional<SampleStep> step = transform->device_step(shape);
    if (!step) {
      fail_at(transform->origin,
              "runs on the host only; with data.cache: device the GPU has random_crop, horizontal_flip and "
              "normalize; write data.cache: none");
    }
    if (steps.count == SampleSteps::kMost) {
      fail_at(transform->origin,
              fmt::format("a GPU takes at most {} random steps; write data.cache: none", SampleSteps::kMost));
    }
    steps.steps[steps.count++] = *step;
    shape = transform->output_shape(shape, diagnostics);
  }
  diagnostics.throw_if_any();
  return steps;
}

SampleSet sample_set(const Recipe& recipe, const SourceInfo& info, Split split) {
  return {.name = split == Split::train ? "train" : "val",
          .size = info.size,
          .shape = info.shape,
          .steps = device_steps(recipe, recipe.data.images.transform_list(split), info.shape)};
}

/// Reports settings that are impossible on a device, for any samples.
void check_cache(const RunSpec& run, const Planner& planner) {
  const Recipe& recipe = run.recipe();
  const Origin origin = recipe.origin_of("data.cache");
  if (!planner.is_async()) {
    fail_at(
        origin,
        fmt::format("device requires a GPU: the {} reads samples in place; write none, or device.type: cuda",
                    planner.name()));
  }
  if (recipe.data.images.mix.any())
    fail_at(recipe.origin_of("data.mix"), "mixes samples on the host; write data.cache: none");
  const Program program = forward_program(run);
  const TensorId labels = program.find(input_name::kLabels);
  if (labels != kNone && program.spec(labels).shape.size() > 1)
    fail_at(origin,
            "device does not support a label for every pixel, which the network's output needs; write none");
  if (program.find(input_name::kTargets) != kNone)
    fail_at(origin, "device does not support several labels for each image; write none");
}

}  // namespace

std::map<std::string, SampleSet> cached_samples(const RunSpec& run, const Planner& planner,
                                                const SplitInfos& infos) {
  const Recipe& recipe = run.recipe();
  check_cache(run, planner);
  const bool validates = has_split(recipe.data, Split::val);
  if (!infos.train || (validates && !infos.validation)) require_data(recipe);
  for (const std::optional<SourceInfo>* info : {&infos.train, &infos.validation}) {
    if (*info && !is_fixed((*info)->shape)) {
      fail_at(recipe.origin_of("data.cache"), "device needs images of one size, but those of format " +
                                                  recipe.data.format + " differ; write none");
    }
    if (*info && (*info)->shape[0] != recipe.model.input[0]) {
      fail_at(recipe.origin_of("data.cache"),
              fmt::format("device does not convert images of {} channel(s) to {}; write none",
                          (*info)->shape[0], recipe.model.input[0]));
    }
  }
  std::map<std::string, SampleSet> sets;
  sets[entry_name::kTrainStep] = sample_set(recipe, *infos.train, Split::train);
  sets[entry_name::kEvaluate] = validates ? sample_set(recipe, *infos.validation, Split::val)
                                          : sets[entry_name::kTrainStep];  // planned, never run
  return sets;
}

}  // namespace trainer
