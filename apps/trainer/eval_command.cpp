// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>

#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_network.h"
#include "core/base/json.h"
#include "core/host/stop.h"
#include "core/recipe/feed.h"
#include "core/session/ranks.h"
#include "core/train/evaluation.h"

namespace trainer {
namespace {

void print_json(const Job& job, std::map<std::string, double>& found, const std::string& weights) {
  Json report;
  for (const std::string& name : names_of(job.settings.metrics)) report[name] = found[name];
  report["samples"] = job.settings.validation_samples;
  report["weights"] = weights;
  print_text("{}\n", report.dump(-1, Json::NotUtf8::replace));
}

void print_line(const Job& job, std::map<std::string, double>& found, const std::string& weights) {
  std::string text = "validation";
  for (const std::string& name : names_of(job.settings.metrics))
    text += fmt::format(" {} {:.4f}", name, found[name]);
  print_text("{} ({} samples, weights of {})\n", text, job.settings.validation_samples, weights);
}

}  // namespace

int eval_command(const Arguments& arguments) {
  require_one_process("evaluation");
  const StopSignals signals(StopSignals::kPass);  // they end it at once: all is printed at the end
  const std::unique_ptr<Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  if (!has_split(recipe->data, Split::val)) {
    fail_at(recipe->origin_of("data.val"),
            "names no samples to evaluate on; set it, or data.val_fraction to set some of data.train aside");
  }
  require_data(*recipe, Split::val);
  TrainedNetwork network(*recipe, Purpose::evaluate);
  const Job& job = network.job();
  const Feed feed = open_feed(*recipe, job, network.device(), Split::val, "");
  Evaluation evaluation(network.executable(), *feed.pipeline, job.settings.validation_samples,
                        job.settings.metrics, job.averages, job.settings.known_sums);
  OneRank alone;
  Agreement agreement(alone);
  std::map<std::string, double> found = *evaluation.run(agreement);
  for (const UnreadableSample& sample : feed.source->take_unreadable())
    print_warning(fmt::format("{}: {}; used the next readable sample instead", sample.name, sample.reason));
  (arguments.json ? print_json : print_line)(job, found, network.files().model.string());
  return 0;
}

}  // namespace trainer
