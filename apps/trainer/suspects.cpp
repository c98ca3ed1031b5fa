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
#include "core/data/tables/source.h"
#include "core/recipe/assemble.h"
#include "core/recipe/classes.h"
#include "core/recipe/feed.h"
#include "core/tasks/classification.h"
#include "core/train/prediction.h"

namespace trainer {
namespace {

/// The target of a sample and what networks that did not train on it say.
struct Opinion {
  int64_t networks = 0;
  int32_t label = 0;                            ///< of one of several classes
  std::vector<double> targets;                  ///< numbers
  std::vector<double> predicted;                ///< added up: the probability of each class, or each number
  std::vector<TablePreparation::Target> units;  ///< of these numbers

  double of(size_t c) const { return predicted[c] / static_cast<double>(networks); }
  /// The larger, the less suspicious.
  double confidence() const {
    if (units.empty()) return of(static_cast<size_t>(label));
    double farthest = 0;
    for (size_t c = 0; c < units.size(); ++c)
      farthest = std::max(farthest, std::abs(error(c)) / units[c].deviation);
    return -farthest;
  }
  double error(size_t c) const { return of(c) - targets[c]; }
  bool is_of_same(const Opinion& other) const {
    return label == other.label && targets == other.targets && predicted.size() == other.predicted.size();
  }
};
using Opinions = std::map<CheckedSample, Opinion>;

bool predicts_numbers(const Recipe& recipe) {
  return recipe.loss->target_kind() == TargetKind::numbers && recipe.model.kind() == InputKind::features;
}

void check_run(const Recipe& recipe, const Task& task, const std::string& run) {
  if (!has_split(recipe.data, Split::val))
    throw Error(ExitCode::recipe,
                fmt::format("{}: the run has no validation, so it trained on all samples; train one "
                            "with data.val or data.val_fraction",
                            one_line(run)));
  const InputKind kind = recipe.model.kind();
  if (kind != InputKind::pixels && kind != InputKind::features)
    throw Error(ExitCode::recipe, fmt::format("{}: --suspects reads images and rows of tables, and the run's "
                                              "samples are {}",
                                              one_line(run), recipe.data.rows(kind).name()));
  const bool has_one_label = task.judges() && !task.has_label_sets();
  if (!has_one_label && !predicts_numbers(recipe))
    throw Error(
        ExitCode::recipe,
        fmt::format("{}: --suspects needs a network that gives each sample one of several classes, or "
                    "a table's row numbers, and this one's task is {}",
                    one_line(run), task.name()));
}

/// Passes a run's network over its validation split.
class RunOpinions {
 public:
  RunOpinions(const std::string& run, const std::string& id, StopSignals& signals)
      : run_(run), id_(id), signals_(signals), trained_(trained(run)) {
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
      add_rows(*batch, pipeline->rows(), *source, prediction, opinions);
    signals_.throw_if_asked();
  }

 private:
  static TrainedRecipe trained(const std::string& run) {
    Arguments arguments;
    arguments.run = run;
    return with_weights(named_recipe(arguments), arguments);
  }

  void add_rows(const Batch& batch, int64_t rows, const DataSource& source, const Prediction& prediction,
                Opinions& opinions) {
    for (int64_t row = 0; row < batch.real; ++row) {
      const int64_t index = batch.step * rows + row;
      if (!unreadable_.take(index).empty()) continue;
      const std::span<const float> output = prediction.output(row);
      const CheckedSample sample{.side = Split::val,
                                 .stored = stored_in(trained_.recipe->data, Split::val),
                                 .name = exclude_name(source, index, id_)};
      if (!std::ranges::all_of(output, [](float x) { return std::isfinite(x); }))
        throw Error(ExitCode::internal, fmt::format("{}: the network's output for {} is not finite",
                                                    one_line(run_), sample.text()));
      add(opinions[sample], opinion(batch, row, source, index, output), sample);
    }
  }

  Opinion opinion(const Batch& batch, int64_t row, const DataSource& source, int64_t index,
                  std::span<const float> output) const {
    if (!predicts_numbers(*trained_.recipe))
      return {.networks = 1,
              .label = batch.find<int32_t>(input_name::kLabels)[row],
              .targets = {},
              .predicted = probabilities(output),
              .units = {}};
    const auto& rows = dynamic_cast<const TableSource&>(source);
    Opinion found{.networks = 1, .label = 0, .targets = {}, .predicted = {}, .units = rows.how().targets};
    const Table& table = rows.table();
    for (size_t c = 0; c < found.units.size(); ++c) {
      found.targets.push_back(
          table.numbers_of(rows.samples().first_row(index))[table.columns.numbers.size() + c]);
      found.predicted.push_back(found.units[c].mean + found.units[c].deviation * double{output[c]});
    }
    return found;
  }

  void add(Opinion& all, Opinion one, const CheckedSample& sample) const {
    const bool is_first = all.networks == 0;
    if (!is_first && !all.is_of_same(one))
      throw Error(ExitCode::recipe,
                  fmt::format("{}: the runs of --suspects have other labels for '{}'; name runs that "
                              "were trained on the same data",
                              one_line(run_), one_line(sample.name)));
    if (one.units.empty() && static_cast<size_t>(one.label) >= one.predicted.size()) return;
    if (is_first) {
      all = std::move(one);
      return;
    }
    ++all.networks;
    for (size_t c = 0; c < one.predicted.size(); ++c) all.predicted[c] += one.predicted[c];
  }

  const std::string &run_, &id_;
  StopSignals& signals_;
  TrainedRecipe trained_;
  Unreadable unreadable_;
};

std::string class_text(const std::vector<std::string>& names, size_t c) {
  return c < names.size() ? one_line(names[c]) : std::to_string(c);
}

/// Of a sample with one of several classes.
CheckList::Row class_row(const CheckedSample& sample, const Opinion& opinion,
                         const std::vector<std::string>& names) {
  const auto most =
      static_cast<size_t>(std::ranges::max_element(opinion.predicted) - opinion.predicted.begin());
  const auto label = static_cast<size_t>(opinion.label);
  Json json = sample.json();
  json["label"] = label;
  json["probability"] = opinion.confidence();
  json["predicted"] = most;
  json["predicted_probability"] = opinion.of(most);
  return {.text = fmt::format("{}: {} {:.2g}, {} {:.2g}", sample.text(), class_text(names, label),
                              opinion.confidence(), class_text(names, most), opinion.of(most)),
          .json = std::move(json),
          .left_out = {sample}};
}

CheckList::Row number_row(const CheckedSample& sample, const Opinion& opinion) {
  Json json = sample.json(), targets = Json::object(), predicted = Json::object();
  std::string text = sample.text() + ":";
  for (size_t c = 0; c < opinion.units.size(); ++c) {
    const std::string& name = opinion.units[c].name;
    targets[name] = opinion.targets[c];
    predicted[name] = opinion.of(c);
    text += fmt::format("{} {} {:.6g}, predicted {:.6g}", c == 0 ? "" : ";", one_line(name),
                        opinion.targets[c], opinion.of(c));
  }
  json["targets"] = targets;
  json["predicted"] = predicted;
  json["deviations"] = -opinion.confidence();
  return {.text = std::move(text), .json = std::move(json), .left_out = {sample}};
}

}  // namespace

CheckList suspects_of(const CheckArguments& arguments, StopSignals& signals) {
  Opinions opinions;
  std::vector<std::string> names;
  for (const std::string& run : arguments.runs)
    RunOpinions(run, arguments.id, signals).add_to(opinions, names);
  std::vector<const Opinions::value_type*> order;
  for (const auto& each : opinions) {
    if (each.second.networks > 0) order.push_back(&each);
  }
  const auto has_numbers = [](const auto* each) { return !each->second.units.empty(); };
  const bool are_numbers = std::ranges::any_of(order, has_numbers);
  if (are_numbers && !std::ranges::all_of(order, has_numbers))
    throw Error(ExitCode::recipe,
                "--suspects: some of the runs predict classes and others numbers; name runs of one recipe");
  std::ranges::stable_sort(order, {}, [](const auto* each) { return each->second.confidence(); });
  order.resize(std::min(order.size(), static_cast<size_t>(arguments.suspects)));
  CheckList list{
      .key = "suspects",
      .title = fmt::format("samples with the {}, of {} that were not trained on",
                           are_numbers ? "largest errors" : "least probable labels", opinions.size())};
  for (const auto* each : order)
    list.rows.push_back(are_numbers ? number_row(each->first, each->second)
                                    : class_row(each->first, each->second, names));
  return list;
}

}  // namespace trainer
