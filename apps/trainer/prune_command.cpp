// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

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
#include "core/recipe/assemble.h"
#include "core/run/stored_weights.h"
#include "core/run/weights.h"
#include "core/session/smaller_network.h"

namespace trainer {
namespace {

PruneRequest request_of(const PruneArguments& wanted) {
  if (wanted.keep <= 0)
    throw Error(
        ExitCode::usage,
        fmt::format("--keep takes the share of channels to keep, above 0 and up to 1, got {}", wanted.keep));
  return {.kept = {.share = wanted.keep, .multiple = wanted.multiple},
          .by = wanted.by == "gamma" ? Importance::gamma : Importance::l1,
          .except = wanted.except};
}

}  // namespace

int prune_command(const Arguments& arguments) {
  const PruneRequest request = request_of(arguments.prune);
  StopSignals signals(StopSignals::kPass);
  const TrainedRecipe trained = with_weights(named_recipe(arguments), arguments);
  const RunSpec spec(trained.recipe);
  const StoredWeights weights(forward_program(spec, {.purpose = Purpose::predict}),
                              spec.recipe().model.tied_weights(), trained.files.model);
  if (const std::string remark = weights.prefix_remark(); !remark.empty())
    print_warning(fmt::format("{}: {}", one_line(trained.files.model.string()), remark));
  signals.watch_loop();
  const TensorValues values = [&](const Tensor& tensor) {
    signals.throw_if_asked();  // here, so that no partial file remains
    return weights.read(tensor.name);
  };
  const std::filesystem::path out = arguments.out;
  const SmallerNetwork smaller = choose_channels(spec, values, request);
  const Program after = write_smaller(smaller, spec, values, weights_metadata(trained.about), out);
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
