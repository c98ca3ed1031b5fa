// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>

#include "apps/trainer/class_report.h"
#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_network.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/host/stop.h"
#include "core/recipe/about.h"
#include "core/recipe/feed.h"
#include "core/session/membership.h"
#include "core/train/evaluation.h"

namespace trainer {
namespace {

/// The results of an evaluation.
struct Found {
  std::map<std::string, double> values;
  std::map<std::string, const ConfusionMatrix*> matrices;
  std::vector<std::string> class_names;
  std::string weights;  ///< the file
};

void print_json(const Job& job, const Found& found) {
  Json report;
  for (const std::string& name : names_of(job.settings.metrics)) report[name] = found.values.at(name);
  report["samples"] = job.settings.validation_samples;
  report["weights"] = found.weights;
  for (const auto& [prefix, matrix] : found.matrices)
    report[prefix + "confusion"] = to_json(*matrix, found.class_names);
  print_text("{}\n", report.dump(-1, Json::NotUtf8::replace));
}

void print_lines(const Job& job, const Found& found) {
  std::string text = "validation";
  for (const std::string& name : names_of(job.settings.metrics))
    text += fmt::format(" {} {:.4f}", name, found.values.at(name));
  print_text("{} ({} samples, weights of {})\n", text, job.settings.validation_samples, found.weights);
  for (const auto& [prefix, matrix] : found.matrices)
    print_text("\n{}{}", prefix.empty() ? "" : "averaged weights:\n",
               class_report(*matrix, found.class_names, job.spec.output().size() == 4));
}

}  // namespace

int eval_command(const Arguments& arguments) {
  require_one_process("evaluation");
  const StopSignals signals(StopSignals::kPass);  // they end it at once: all is printed at the end
  const std::shared_ptr<const Recipe> named = named_recipe(arguments);
  if (!has_split(named->data, Split::val)) {
    fail_at(named->origin_of("data.val"),
            "names no samples to evaluate on; set it, or data.val_fraction to set some of data.train aside");
  }
  require_data(*named, Split::val);
  const TrainedRecipe trained = with_weights(named, arguments);
  TrainedNetwork network(trained.recipe, trained.files, Purpose::evaluate);
  const Job& job = network.job();
  const Feed feed = open_feed(job, network.device(), Split::val, "");
  require_trained_classes(trained, *feed.source, arguments);
  Evaluation evaluation(network.executable(), *feed.pipeline, job.settings.validation_samples,
                        job.settings.metrics, job.use.averages, job.settings.known_sums, job.settings.matrix,
                        job.settings.scores);
  SingleProcess alone;
  Agreement agreement(alone);
  Found found{.values = *evaluation.run(agreement),
              .matrices = evaluation.matrices(),
              .class_names = class_names_in(trained.about),
              .weights = network.files().model.string()};
  if (found.class_names.empty()) found.class_names = feed.source->class_names();
  for (const UnreadableSample& sample : feed.source->take_unreadable())
    print_warning(
        fmt::format("{}: {}; used the next readable sample instead", one_line(sample.name), sample.reason));
  (arguments.json ? print_json : print_lines)(job, found);
  return 0;
}

}  // namespace trainer
