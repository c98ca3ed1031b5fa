// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "apps/trainer/predicted_sample.h"
#include "apps/trainer/trained_network.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/printable.h"
#include "core/data/formats.h"
#include "core/data/pipeline.h"
#include "core/recipe/assemble.h"
#include "core/recipe/classes.h"
#include "core/recipe/feed.h"
#include "core/tasks/classification.h"
#include "core/train/prediction.h"

namespace trainer {
namespace {

/// What networks say of a sample that they did not train on.
struct Opinion {
  int32_t label = 0;
  int64_t networks = 0;
  std::vector<double> probabilities;  ///< of each class, added up

  double of(size_t c) const { return probabilities[c] / static_cast<double>(networks); }
  double self_confidence() const { return of(static_cast<size_t>(label)); }
};
using Opinions = std::map<CheckedSample, Opinion>;

void check_run(const Recipe& recipe, const Task& task, const std::string& run) {
  if (!has_split(recipe.data, Split::val))
    throw Error(ExitCode::recipe,
                fmt::format("{}: the run has no validation, so it trained on all samples; train one "
                            "with data.val or data.val_fraction",
                            one_line(run)));
  const bool has_one_label = task.judges() && !task.has_label_sets();
  if (!has_one_label)
    throw Error(ExitCode::recipe,
                fmt::format("{}: --suspects needs a network that gives each image one of several "
                            "classes, and this one's task is {}",
                            one_line(run), task.name()));
}

/// Passes a run's network over its validation split.
class RunOpinions {
 public:
  RunOpinions(const std::string& run, StopSignals& signals)
      : run_(run), signals_(signals), trained_(trained(run)) {
    check_run(*trained_.recipe, task_of(trained_.recipe), run);
    check_prediction(trained_.recipe);
  }

  /// Adds them, and the classes' names.
  void add_to(Opinions& opinions, std::vector<std::string>& names) {
    const RunSpec spec(trained_.recipe);
    const Recipe& recipe = spec.recipe();
    require_data(recipe, Split::val);
    const std::unique_ptr<DataSource> source = open_stored(recipe.data, source_request(spec, Split::val));
    if (names.empty()) names = source->class_names();
    TrainedNetwork network(spec, trained_.files, Purpose::predict, {.at_most = source->size()});
    const auto keep = [this](int64_t index, const UnreadableSample& found) {
      unreadable_.add(index, found.reason);
    };
    const auto pipeline = open_pass(network.job(), network.device(), {.source = *source, .unreadable = keep});
    Prediction prediction(network.executable(), *pipeline);
    while (const Batch* batch = prediction.next([&] { return signals_.asked(); }))
      add_rows(*batch, pipeline->rows(), as_images(*source), prediction, opinions);
    signals_.throw_if_asked();
  }

 private:
  static TrainedRecipe trained(const std::string& run) {
    Arguments arguments;
    arguments.run = run;
    return with_weights(named_recipe(arguments), arguments);
  }

  void add_rows(const Batch& batch, int64_t rows, const ImageSource& source, const Prediction& prediction,
                Opinions& opinions) {
    const int32_t* labels = batch.find<int32_t>(input_name::kLabels);
    const Recipe& recipe = *trained_.recipe;
    for (int64_t row = 0; row < batch.real; ++row) {
      const int64_t index = batch.step * rows + row;
      if (!unreadable_.take(index).empty()) continue;
      const std::span<const float> output = prediction.output(row);
      const std::vector<double> shares = probabilities(output);
      const CheckedSample sample{.side = Split::val,
                                 .stored = stored_in(recipe.data, Split::val),
                                 .name = source.exclude_name(index)};
      if (!std::ranges::all_of(output, [](float x) { return std::isfinite(x); }))
        throw Error(ExitCode::internal, fmt::format("{}: the network's output for {} is not finite",
                                                    one_line(run_), sample.text()));
      add(opinions[sample], labels[row], shares, sample);
    }
  }

  void add(Opinion& opinion, int32_t label, const std::vector<double>& shares,
           const CheckedSample& sample) const {
    const bool is_first = opinion.networks == 0;
    if (is_first)
      opinion = {.label = label, .networks = 0, .probabilities = std::vector<double>(shares.size())};
    if (opinion.label != label || opinion.probabilities.size() != shares.size())
      throw Error(ExitCode::recipe,
                  fmt::format("{}: the runs of --suspects have other labels for '{}'; name runs that "
                              "were trained on the same data",
                              one_line(run_), one_line(sample.name)));
    if (static_cast<size_t>(label) >= shares.size()) return;
    ++opinion.networks;
    for (size_t c = 0; c < shares.size(); ++c) opinion.probabilities[c] += shares[c];
  }

  const std::string& run_;
  StopSignals& signals_;
  TrainedRecipe trained_;
  Unreadable unreadable_;
};

std::string class_text(const std::vector<std::string>& names, size_t c) {
  return c < names.size() ? one_line(names[c]) : std::to_string(c);
}

CheckList::Row row_of(const CheckedSample& sample, const Opinion& opinion,
                      const std::vector<std::string>& names) {
  const auto most =
      static_cast<size_t>(std::ranges::max_element(opinion.probabilities) - opinion.probabilities.begin());
  const auto label = static_cast<size_t>(opinion.label);
  Json json = sample.json();
  json["label"] = label;
  json["probability"] = opinion.self_confidence();
  json["predicted"] = most;
  json["predicted_probability"] = opinion.of(most);
  return {.text = fmt::format("{}: {} {:.2g}, {} {:.2g}", sample.text(), class_text(names, label),
                              opinion.self_confidence(), class_text(names, most), opinion.of(most)),
          .json = std::move(json),
          .left_out = {sample}};
}

}  // namespace

CheckList suspects_of(const std::vector<std::string>& runs, int64_t count, StopSignals& signals) {
  Opinions opinions;
  std::vector<std::string> names;
  for (const std::string& run : runs) RunOpinions(run, signals).add_to(opinions, names);
  std::vector<const Opinions::value_type*> order;
  for (const auto& each : opinions) {
    if (each.second.networks > 0) order.push_back(&each);
  }
  std::ranges::stable_sort(order, {}, [](const auto* each) { return each->second.self_confidence(); });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  CheckList list{
      .key = "suspects",
      .title = fmt::format("samples with the least probable labels, of {} that were not trained on",
                           opinions.size())};
  for (const auto* each : order) list.rows.push_back(row_of(each->first, each->second, names));
  return list;
}

}  // namespace trainer
