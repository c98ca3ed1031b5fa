// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>

#include "apps/trainer/class_report.h"
#include "apps/trainer/commands.h"
#include "apps/trainer/rank_output.h"
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

/// Ranks share the batches of the split, and rank 0 prints what all have found.
int evaluate(const std::shared_ptr<const Recipe>& named, const Membership& membership,
             const RankIdentity& identity, const Arguments& arguments) {
  const TrainedRecipe trained = with_weights(named, arguments);
  const RunSpec spec(trained.recipe, {}, identity.local_ranks);
  TrainedNetwork network(spec, trained.files, Purpose::evaluate, {}, nullptr, identity.local_rank);
  const Job& job = network.job();
  const std::unique_ptr<DataSource> source =
      open_source(job.spec.recipe().data, source_request(job.spec, Split::val));
  require_trained_classes(trained, *source, arguments);
  membership.require_same_samples(*source, "val");
  ProcessGroup& group = membership.group();
  group.arrange({.replicas = group.size()});
  const std::unique_ptr<DataPipeline> batches =
      open_pass(job, network.device(), {.source = *source, .share = {identity.rank, identity.ranks}});
  Evaluation evaluation(network.executable(), *batches, job.settings.validation_samples, job.settings.metrics,
                        job.use.averages, job.settings.known_sums, job.settings.matrix, job.settings.scores);
  Agreement agreement(group);
  Found found{.values = *evaluation.run(agreement),
              .matrices = evaluation.matrices(),
              .class_names = class_names_in(trained.about),
              .weights = network.files().model.string()};
  if (found.class_names.empty()) found.class_names = source->class_names();
  for (const UnreadableSample& sample : source->take_unreadable())
    print_warning(
        fmt::format("{}: {}; used the next readable sample instead", one_line(sample.name), sample.reason));
  if (membership.is_rank_0()) (arguments.json ? print_json : print_lines)(job, found);
  return 0;
}

}  // namespace

int eval_command(const Arguments& arguments) {
  const StopSignals signals(StopSignals::kPass);  // they end it at once: all is printed at the end
  const std::shared_ptr<const Recipe> named = named_recipe(arguments);
  if (!has_split(named->data, Split::val)) {
    fail_at(named->origin_of("data.val"),
            "names no samples to evaluate on; set it, or data.val_fraction to set some of data.train aside");
  }
  require_data(*named, Split::val);
  const RankIdentity identity = launched_as();
  const Membership membership(named, identity, false);
  return run_as_rank(membership, [&] { return evaluate(named, membership, identity, arguments); });
}

}  // namespace trainer
