// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/trained_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/trainer/standard_streams.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/recipe/about.h"
#include "core/recipe/as_trained.h"
#include "core/session/earlier_split.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecipeOfRun = "recipe.yaml";
constexpr const char* kDecide =
    "correct the recipe, or decide with --as-trained (as the weights) or --as-written (as the recipe)";

/// The recipe's file.
std::string file_of(const Arguments& arguments) {
  if (arguments.run.empty()) return arguments.config;
  const fs::path run = arguments.run;
  std::error_code ignored;
  if (fs::exists(run / kRecipeOfRun, ignored)) return (run / kRecipeOfRun).string();
  throw Error(ExitCode::usage,
              fmt::format("{}: expected a run's directory, {}; name the recipe with --config, or a run as "
                          "`trainer runs` lists it",
                          one_line(arguments.run),
                          fs::is_directory(run, ignored) ? fmt::format("found no {} in it", kRecipeOfRun)
                          : fs::exists(run, ignored)     ? "found a file"
                                                         : "found nothing"));
}

bool gives_weights(const std::string& override) {
  return override.starts_with("run.resume=");
}

TrainedFiles files_of(const Recipe& recipe, const Arguments& arguments) {
  const bool names_them = std::ranges::any_of(arguments.overrides, gives_weights);
  if (!arguments.weights.empty() && names_them)
    throw Error(ExitCode::usage, "--weights and run.resume both name weights; leave one of them out");
  if (!arguments.weights.empty()) return find_trained(arguments.weights);
  if (!arguments.run.empty() && !names_them) return best_trained(arguments.run);
  if (recipe.run.is_never()) {
    fail_at(recipe.origin_of("run.resume"),
            "never loads no weights; use auto, or name a run's directory, one of its checkpoints or a "
            ".safetensors file");
  }
  if (const auto path = recipe.run.resume_path()) return find_trained(*path);
  require_no_earlier_split(recipe);
  const std::string directory = recipe.output_directory();
  if (!fs::exists(directory)) {
    throw Error(ExitCode::data, fmt::format("{}: this recipe has not been trained here (no run directory); "
                                            "train it, or name trained weights with --weights PATH",
                                            directory));
  }
  return find_trained(directory);
}

/// "model.safetensors was trained with data.eval_transform [...], the recipe has [...]"
std::string difference_text(const TrainedRecipe& trained, const TrainedValue& value) {
  return fmt::format("{} was trained with {}, the recipe has {}", one_line(trained.files.model.string()),
                     one_line(value.trained), one_line(value.given));
}

[[noreturn]] void refuse(const TrainedRecipe& trained, const TrainedValue& value) {
  fail_at(
      trained.recipe->origin_of(value.key),
      fmt::format("{}; {}", difference_text(trained, value),
                  value.obstacle.empty()
                      ? kDecide
                      : fmt::format("correct the recipe, or keep it with --as-written; --as-trained cannot "
                                    "be used: {}",
                                    value.obstacle)));
}

}  // namespace

std::shared_ptr<const Recipe> named_recipe(const Arguments& arguments) {
  return Recipe::load(file_of(arguments), arguments.overrides);
}

TrainedRecipe with_weights(std::shared_ptr<const Recipe> recipe, const Arguments& arguments) {
  TrainedRecipe trained{.recipe = std::move(recipe), .files = {}, .about = {}};
  trained.files = files_of(*trained.recipe, arguments);
  trained.about = SafetensorsFile(trained.files.model).metadata();
  const RecipeReader read = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = arguments.overrides;
    overrides.insert(overrides.end(), more.begin(), more.end());
    return Recipe::load(file_of(arguments), overrides);
  };
  AsTrained as = compare_with_weights(*trained.recipe, trained.about, read);
  for (const TrainedValue& value : as.differences) {
    const bool is_decided = arguments.as_written || (arguments.as_trained && value.obstacle.empty());
    if (!is_decided) refuse(trained, value);
    if (arguments.as_written)
      print_warning(fmt::format("{}: {}", value.key, difference_text(trained, value)));
  }
  if (arguments.as_trained && as.recipe) trained.recipe = std::move(as.recipe);
  use_preparation(*trained.recipe, trained.about);
  return trained;
}

void require_trained_classes(const TrainedRecipe& trained, const DataSource& labelled,
                             const Arguments& arguments) {
  const std::vector<std::string> there = class_names_in(trained.about), here = labelled.class_names();
  if (there.empty() || here.empty() || there == here) return;
  const auto text = [](const std::vector<std::string>& names) {
    return Json(names).dump(-1, Json::NotUtf8::replace);
  };
  const TrainedValue value{
      .key = "data", .trained = text(there), .given = text(here), .obstacle = "labels are the data's"};
  if (!arguments.as_written) refuse(trained, value);
  print_warning(fmt::format("classes: {}", difference_text(trained, value)));
}

}  // namespace trainer
