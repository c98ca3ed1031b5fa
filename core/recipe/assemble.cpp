// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/assemble.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {
namespace {

Entry forward_entry(Program& program, const Recipe& recipe, const char* name, bool training) {
  Entry entry{.name = name, .nodes = {}, .outputs = {}, .gradients = {}};
  Builder build(program, entry);
  const TensorId images = program.find(input_name::kImages), labels = program.find(input_name::kLabels),
                 weights = program.find(input_name::kWeights);
  const LayerContext context{.build = build,
                             .name = "",
                             .training = training,
                             .seed = static_cast<uint64_t>(recipe.run.seed),
                             .sample_index = program.find(input_name::kSampleIndex),
                             .step = step_counter(program)};
  const TensorId logits = recipe.model.build(context, images).back();
  entry.outputs.push_back({"loss", recipe.loss->build(build, logits, labels, weights)});
  if (training) return entry;
  build.set_origin(recipe.origin_of("validation.metrics"));
  for (const Metric& metric : metrics()) {
    const auto& wanted = recipe.validation.metrics;
    if (std::find(wanted.begin(), wanted.end(), metric.name) == wanted.end()) continue;
    entry.outputs.push_back({metric.name, metric.build(build, logits, labels, weights)});
  }
  entry.outputs.push_back({"logits", logits});
  return entry;
}

}  // namespace

Program forward_program(const Recipe& recipe) {
  Program program;
  const int64_t rows = recipe.training.micro_batch();
  Shape images{rows};
  images.insert(images.end(), recipe.model.input.begin(), recipe.model.input.end());
  program.input(input_name::kImages, {images, DType::f32});
  program.input(input_name::kLabels, {{rows}, DType::i32});
  program.input(input_name::kWeights, {{rows}, DType::f32});
  program.input(input_name::kSampleIndex, {{rows}, DType::i32});
  program.entries.push_back(forward_entry(program, recipe, entry_name::kTrainStep, true));
  program.entries.push_back(forward_entry(program, recipe, entry_name::kEvaluate, false));
  return program;
}

int64_t class_count(const Program& program) {
  for (const NamedTensor& output : program.find_entry(entry_name::kEvaluate)->outputs) {
    if (output.name == "logits") return program.spec(output.tensor).shape.back();
  }
  return 0;
}

std::vector<Pass> passes_for(const Recipe& recipe, const std::vector<float>& lr_table,
                             const std::vector<std::string>& disabled) {
  auto update = [&recipe, lr_table](Program& program) {
    recipe.optimizer->append_update(program, program.entry(updating_entry(program)), lr_table);
  };
  std::vector<Pass> passes = {
      fuse_residual(),
      fold_batch_norm(),
      fuse_relu(),
      autodiff(),
      fuse_gradient_sum(),
      recompute(*recipe.memory.parsed_recompute()),
      accumulate(recipe.training.micro_batches()),
      {.name = "update", .help = "append the optimiser", .optional = false, .run = update}};
  if (recipe.training.ema_decay) passes.push_back(average_weights(*recipe.training.ema_decay));
  passes.push_back(dead_code());
  for (const std::string& name : disabled) {
    const auto found = std::find_if(passes.begin(), passes.end(),
                                    [&](const Pass& pass) { return pass.name == name && pass.optional; });
    if (found == passes.end()) {
      std::vector<std::string> optional;
      for (const Pass& pass : passes) {
        if (pass.optional) optional.push_back(pass.name);
      }
      throw Error(ExitCode::usage, fmt::format("no optional pass is named '{}'; there are: {}", name,
                                               fmt::join(optional, ", ")));
    }
    passes.erase(found);
  }
  return passes;
}

}  // namespace trainer
