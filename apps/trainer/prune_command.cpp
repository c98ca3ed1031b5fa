// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/prune_table.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/host/stop.h"
#include "core/quantization/int8_network.h"
#include "core/recipe/assemble.h"
#include "core/run/best_weights.h"
#include "core/run/int8_weights.h"
#include "core/run/stored_weights.h"
#include "core/run/weights.h"
#include "core/session/smaller_network.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

PruneRequest request_of(const PruneArguments& wanted) {
  if (wanted.keep <= 0)
    throw Error(
        ExitCode::usage,
        fmt::format("--keep takes the share of channels to keep, above 0 and up to 1, got {}", wanted.keep));
  return {.kept = {.share = wanted.keep, .multiple = wanted.multiple},
          .by = wanted.by == "gamma" ? Importance::gamma : Importance::l1,
          .except = wanted.except};
}

/// Throws Error (exit 65) at an infinite value or NaN: channels with these have no order.
std::vector<float> finite_values(const StoredWeights& weights, const std::string& name,
                                 const fs::path& file) {
  std::vector<float> values = weights.read(name);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    throw Error(ExitCode::data,
                fmt::format("{}: '{}' has infinite or NaN values, by which channels cannot be "
                            "compared; choose weights of an earlier checkpoint",
                            one_line(file.string()), one_line(name)));
  return values;
}

/// What is known of the given network, without the evaluation that the smaller one has not had.
StoredMetadata metadata_of(const TrainedRecipe& trained) {
  StoredMetadata about = trained.about;
  about.erase(kBestMetadata);
  about.erase(kRangesMetadata);  // of inputs with all channels
  return weights_metadata(about);
}

}  // namespace

int prune_command(const Arguments& arguments) {
  const PruneRequest request = request_of(arguments.prune);
  StopSignals signals(StopSignals::kPass);
  const TrainedRecipe trained = with_weights(named_recipe(arguments), arguments);
  require_trainable(trained.files.model);
  const RunSpec spec(trained.recipe);
  const StoredWeights weights(forward_program(spec, {.purpose = Purpose::predict}),
                              spec.recipe().model.tied_weights(), trained.files.model);
  if (const std::string remark = weights.prefix_remark(); !remark.empty())
    print_warning(fmt::format("{}: {}", one_line(trained.files.model.string()), remark));
  signals.watch_loop();
  const TensorValues values = [&](const Tensor& tensor) {
    signals.throw_if_asked();  // here, so that no partial file remains
    return finite_values(weights, tensor.name, trained.files.model);
  };
  const fs::path out = arguments.out;
  const SmallerNetwork smaller = choose_channels(spec, values, request);
  const Program after = write_smaller(smaller, spec, values, metadata_of(trained), out);
  print_to_output(prune_table(smaller, after));
  const std::string recipe = one_line((out / "recipe.yaml").string());
  print_text(
      "\n{}: the smaller network\n{}: its weights\n"
      "train on: trainer --config {}\n"
      "evaluate: trainer eval --config {} --weights {}\n",
      recipe, one_line((out / "model.safetensors").string()), recipe, recipe,
      one_line((out / "model.safetensors").string()));
  return 0;
}

}  // namespace trainer
