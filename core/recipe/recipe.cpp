// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "core/base/split.h"
#include "core/config/environment.h"
#include "core/config/messages.h"
#include "core/config/networks.h"
#include "core/config/old_keys.h"
#include "core/config/templates.h"
#include "core/data/formats.h"
#include "core/data/images/masks.h"
#include "core/data/tokens/formats.h"
#include "core/recipe/run_name.h"
#include "core/recipe/value_path.h"
#include "core/tasks/metric.h"
#include "core/track/address.h"

namespace trainer {
namespace {

/// If a network's file is missing, its keys are not reported one by one as well.
void leave_out(Value& model) {
  model.kind = Value::Kind::map;
  for (const char* key : {"input", "layers"}) {
    Value silent;
    silent.reported = true;
    model.entries.push_back({key, {}, silent});
  }
}

/// `model: resnet18` is short for `model: {network: resnet18}`.
void name_network(Value& root) {
  for (Value::Entry& entry : root.entries) {
    if (entry.key != "model" || entry.value.kind != Value::Kind::scalar || entry.value.reported) continue;
    Value section;
    section.kind = Value::Kind::map;
    section.where = entry.where;
    section.entries.push_back({"network", entry.where, std::move(entry.value)});
    entry.value = std::move(section);
  }
}

/// Puts the keys of the file `model.network` beside it, as if they were written there.
void include_network(Value& root, Diagnostics& diagnostics) {
  Value* model = find_section(root, "model");
  if (model == nullptr || (model->kind != Value::Kind::map && model->kind != Value::Kind::null)) return;
  const Value::Entry* named = find_path(root, "model.network");
  if (named == nullptr || named->value.kind != Value::Kind::scalar) {
    if (find_path(root, "model.input") == nullptr && find_path(root, "model.layers") == nullptr)
      leave_out(*model);
    return;
  }
  const size_t problems = diagnostics.problems().size();
  const Value network = load_network(named->value, named->where, diagnostics);
  if (network.kind != Value::Kind::map) return leave_out(*model);
  if (diagnostics.problems().size() != problems) diagnostics.throw_if_any();  // as for the recipe's own text
  for (const Value::Entry& entry : network.entries) {
    if (const Value::Entry* twice = find_path(root, "model." + entry.key)) {
      diagnostics.error(twice->where, "model." + entry.key,
                        fmt::format("is given here and in {}; keep one of them", to_string(entry.where)));
      continue;
    }
    model->entries.push_back(entry);
  }
}

void include_model_templates(Value& root, Diagnostics& diagnostics) {
  if (Value* model = find_section(root, "model")) include_templates(*model, "model", diagnostics);
}

/// Reports durations in tokens at and below a value.
void refuse_tokens(const Value& value, const Location& where, const std::string& path,
                   Diagnostics& diagnostics) {
  const std::optional<Duration> duration = parse_duration(value.text);
  if (value.kind == Value::Kind::scalar && duration && duration->unit == Duration::Unit::tokens)
    diagnostics.error(
        where, path,
        fmt::format("{} counts tokens, and the network reads none; write ep or ba", shown_text(value)));
  for (const Value& item : value.items) refuse_tokens(item, item.where, path, diagnostics);
  for (const Value::Entry& entry : value.entries)
    refuse_tokens(entry.value, entry.where, path + "." + entry.key, diagnostics);
}

/// The files that a value and all it holds come from.
void add_files(const Value& value, std::set<std::string>& files) {
  files.insert(value.where.file);
  for (const Value& item : value.items) add_files(item, files);
  for (const Value::Entry& entry : value.entries) add_files(entry.value, files);
}

bool names_network(const std::string& argument) {
  return argument.starts_with("model.network=") || argument.starts_with("model=");
}

/// Overrides that name another network come before its keys are read in, all others after.
void apply_overrides(Value& root, const std::vector<std::string>& overrides, bool network,
                     Diagnostics& diagnostics) {
  for (size_t i = 0; i < overrides.size(); ++i) {
    if (names_network(overrides[i]) != network) continue;
    apply_override(root, overrides[i], static_cast<int>(i) + 1, diagnostics);
  }
}

}  // namespace

Recipe::Recipe()
    : loss(losses().front().make()),
      optimizer(optimizers().front().make()),
      lr_scheduler(schedules().front().make()) {
  declare();
}

void Recipe::declare() {
  fields_.add("version", &version, "version of the recipe's format").at_least(1).at_most(1);
  fields_.section("run", "name, directory, seed, resume and limits of the run",
                  [&](Fields& f) { run.declare(f); });
  fields_.section("device", "the device to run on", [&](Fields& f) { device.declare(f); })
      .does_not_affect_results();
  fields_.section("memory", "trading time for memory", [&](Fields& f) { memory.declare(f); });
  fields_.section("runtime", "how operations are executed", [&](Fields& f) { runtime.declare(f); })
      .does_not_affect_results();
  fields_.section("parallelism", "several processes that train together",
                  [&](Fields& f) { parallelism.declare(f); });
  fields_.section("model", "the network", [&](Fields& f) { model.declare(f); }).required();
  fields_.section("data", "data sets and their transforms", [&](Fields& f) { data.declare(f); }).required();
  fields_.section("training", "duration, batch sizes and precision", [&](Fields& f) { training.declare(f); });
  fields_.component("loss", loss, losses(), "loss function");
  fields_.component("optimizer", optimizer, optimizers(), "the optimiser");
  fields_.component("lr_scheduler", lr_scheduler, schedules(), "the learning-rate schedule");
  fields_.section("guards", "what to do about NaN, infinity and loss spikes",
                  [&](Fields& f) { guards.declare(f); });
  fields_
      .section("compression", "making the network smaller while it is trained",
               [&](Fields& f) { compression.declare(f); })
      .absent_if_unset();
  fields_.section("validation", "evaluation on data.val", [&](Fields& f) { validation.declare(f); });
  fields_.section("logging", "metrics files", [&](Fields& f) { logging.declare(f); })
      .does_not_affect_results();
  fields_
      .section("checkpoint", "when to save, and which checkpoints to keep",
               [&](Fields& f) { checkpoint.declare(f); })
      .does_not_affect_results();
  fields_.section("sweep", "what `trainer sweep` varies, and how", [&](Fields& f) { sweep.declare(f); })
      .does_not_affect_results();
}

std::shared_ptr<const Recipe> Recipe::load(const std::string& path,
                                           const std::vector<std::string>& overrides) {
  Diagnostics diagnostics;
  Value root = load_yaml(path, {.file = path}, diagnostics);
  diagnostics.throw_if_any();
  return read(std::move(root), path, overrides);
}

std::shared_ptr<const Recipe> Recipe::parse(const std::string& text, const std::string& path,
                                            const std::vector<std::string>& overrides) {
  Diagnostics diagnostics;
  Value root = parse_yaml(text, path, diagnostics);
  diagnostics.throw_if_any();
  return read(std::move(root), path, overrides);
}

std::shared_ptr<const Recipe> Recipe::read(Value root, const std::string& path,
                                           const std::vector<std::string>& overrides) {
  Diagnostics diagnostics;
  name_network(root);  // an override may set a key beside it
  apply_overrides(root, overrides, true, diagnostics);
  name_network(root);
  include_network(root, diagnostics);
  include_model_templates(root, diagnostics);
  apply_overrides(root, overrides, false, diagnostics);
  include_model_templates(root, diagnostics);  // an override may name a file

  auto recipe = std::make_shared<Recipe>();
  recipe->file_ = path;
  recipe->run.name = std::filesystem::path(path).stem().string();
  Reading reading;
  if (Value* model_section = find_section(root, "model"))
    Network::write_out(*model_section, "model", reading);
  recipe->fields_.read(root, "", reading);
  reading.finish(diagnostics);
  recipe->given_ = std::move(root);
  if (diagnostics.ok()) {
    recipe->data.settle_paths();
    if (recipe->data.chosen_format().reads_masks()) recipe->loss->ignore_by_default(kIgnoredPixel);
    recipe->check(diagnostics);
  }
  diagnostics.throw_if_any();
  return recipe;
}

void Recipe::check(Diagnostics& diagnostics) const {
  if (!memory.parsed_recompute()) {
    diagnostics.error(
        origin_of("memory.recompute"),
        fmt::format("expected none, cheap, full or a size such as 2GiB, got '{}'", memory.recompute));
  }
  sweep.check([this](const std::string& key) { return origin_of(key); }, diagnostics);
  if (model.layers.empty()) {
    diagnostics.error(origin_of("model"), "missing key 'network' (a file), or 'input' and 'layers'");
    return;
  }
  const bool may_lack_numbers = model.kind() == InputKind::features && model.categories > 0;
  if (std::ranges::find(model.input, 0) != model.input.end() && !may_lack_numbers) {
    diagnostics.error(origin_of("model.input"), "must be at least 1, got 0");
    return;
  }
  try {
    require_addressable(model.input);
  } catch (const TooLarge& problem) {
    diagnostics.error(origin_of("model.input"), problem.what());
    return;
  }
  check_batches(diagnostics);
  model.check(diagnostics);
  if (!model.replace.empty() && !model.initial_weights)
    diagnostics.error(origin_of("model.replace"), "requires model.initial_weights");
  check_data(diagnostics);
  check_split(diagnostics);
  lr_scheduler->check(diagnostics);
  if (parallelism.shard_optimizer && !optimizer->can_shard()) {
    diagnostics.error(origin_of("optimizer.name"),
                      fmt::format("{} needs each matrix as a whole on every rank; remove "
                                  "parallelism.shard_optimizer, or choose another optimizer",
                                  optimizer->chosen_as));
  }
  const auto require_elementwise = [&](bool is_asked, const char* key) {
    if (!is_asked || optimizer->updates_each_element()) return;
    diagnostics.error(origin_of("optimizer.name"),
                      fmt::format("{} reads each parameter as a whole; remove parallelism.{}, or choose an "
                                  "optimizer that updates each element by itself, such as adamw",
                                  optimizer->chosen_as, key));
  };
  require_elementwise(parallelism.shard_parameters.flag, "shard_parameters");
  require_elementwise(parallelism.tensor > 1, "tensor");
  if (parallelism.tensor > 1 && parallelism.shard_optimizer) {
    diagnostics.error(
        origin_of("parallelism.shard_optimizer"),
        "is not for ranks that share operations (parallelism.tensor); use shard_parameters instead");
  }
  if (parallelism.pipeline > 1 && parallelism.shard_optimizer) {
    diagnostics.error(origin_of("parallelism.shard_optimizer"),
                      "is not for the stages of parallelism.pipeline; use shard_parameters instead");
  }
  if (parallelism.shard_parameters.flag && parallelism.shard_optimizer) {
    diagnostics.error(origin_of("parallelism.shard_optimizer"),
                      "parallelism.shard_parameters shards the optimizer's state too; remove this key");
  }
  check_compression(diagnostics);
  check_is_name(run.name, origin_of("run.name"), diagnostics);
  output_directory_checked(identity(), diagnostics);
  check_followed_metrics(diagnostics);
  check_tracker(diagnostics);
  check_bytes(diagnostics);
  // Categories are the second input of a table's rows alone.
  if (model.categories > 0 && model.kind() != InputKind::features && model.kind() != InputKind::series)
    diagnostics.error(origin_of("model.categories"),
                      "is for model.input_kind: features or series, the columns of a table; remove it");
  if (model.kind() == InputKind::tokens) return;
  for (const char* section :
       {"training", "lr_scheduler", "parallelism", "compression", "validation", "logging", "checkpoint"}) {
    if (const Value::Entry* given = find_path(given_, section))
      refuse_tokens(given->value, given->where, section, diagnostics);
  }
}

bool Recipe::measures(const std::string& metric) const {
  return std::ranges::find(validation.metrics, metric) != validation.metrics.end();
}

/// Bytes of a text can be counted if the text is available, or a tokenizer that recovers it from its tokens.
void Recipe::check_bytes(Diagnostics& diagnostics) const {
  const bool counts_bytes = model.kind() == InputKind::tokens && measures(metric_name::kBitsPerByte);
  if (!counts_bytes || !data.chosen_format().gives(model.kind()) || knows_bytes(data)) return;
  diagnostics.error(
      origin_of("validation.metrics"),
      fmt::format("bits_per_byte needs the text's bytes, and shards have only tokens; name their "
                  "tokenizer in data.tokenizer, or remove it"));
}

void Recipe::check_tracker(Diagnostics& diagnostics) const {
  if (!logging.mlflow_uri) {
    const Value::Entry* given = find_path(given_, "logging.mlflow");
    if (given != nullptr && !given->value.entries.empty() && given->value.find("uri") == nullptr)
      diagnostics.error(origin_of("logging.mlflow"), "missing key 'uri'");
    return;
  }
  if (const std::string problem = address_problem(*logging.mlflow_uri); !problem.empty())
    diagnostics.error(origin_of("logging.mlflow.uri"), problem);
  if (trimmed(logging.mlflow_experiment).empty())
    diagnostics.error(origin_of("logging.mlflow.experiment"), "must be a name, got an empty text");
}

void Recipe::check_data(Diagnostics& diagnostics) const {
  if (!data.images.corruption.empty() && loss->target_kind() != TargetKind::numbers)
    diagnostics.error(origin_of("data.corruption"),
                      "is for an autoencoder, whose target is the image without it; write loss.name: mse, or "
                      "move the transforms to data.augment");
  const int32_t ignored = loss->ignored_label();
  if (data.chosen_format().reads_masks() && ignored != kNoLabel &&
      (ignored < 0 || ignored >= kMostMaskClasses))
    diagnostics.error(origin_of("loss.ignore_index"),
                      fmt::format("must be 0 to 255, a value of masks, got {}", ignored));
  if (data.chosen_format().gives(model.kind())) {
    const Value all = settings();
    return data.check(
        model.kind(), model.input, *all.find("data"),
        [this](const std::string& key) { return origin_of(key); }, diagnostics);
  }
  const std::vector<std::string> suited =
      formats_that([this](const DataFormat& format) { return format.gives(model.kind()); });
  diagnostics.error(origin_of("data.format"),
                    fmt::format("{} does not have the {} that the network reads "
                                "(model.input_kind); use {}",
                                data.format, model.input_kind, fmt::join(suited, ", ")));
}

/// Metrics that other settings depend on must be among those that evaluation reports.
void Recipe::check_followed_metrics(Diagnostics& diagnostics) const {
  if (checkpoint.keep_best && checkpoint.keep_best != kKeepNone)
    check_metric("checkpoint.keep_best", *checkpoint.keep_best, diagnostics);
  if (sweep.is_given() && sweep.metric) check_metric("sweep.metric", *sweep.metric, diagnostics);
  const auto check_followed = [&](const std::string& key, const std::string& metric) {
    check_metric(key, metric, diagnostics);
    if (validation.interval.count > 0) return;
    diagnostics.error(origin_of(key),
                      fmt::format("needs evaluations during training; validation.interval is {}",
                                  to_string(validation.interval)));
  };
  if (validation.stop_metric) {
    check_followed("validation.early_stop.metric", *validation.stop_metric);
  } else if (const Value::Entry* given = find_path(given_, "validation.early_stop");
             given != nullptr && !given->value.entries.empty() && given->value.find("metric") == nullptr) {
    diagnostics.error(origin_of("validation.early_stop"), "missing key 'metric'");
  }
  if (const auto plateau = lr_scheduler->plateau()) check_followed("lr_scheduler.metric", plateau->metric);
}

/// A metric that the key names.
void Recipe::check_metric(const std::string& key, const std::string& metric, Diagnostics& diagnostics) const {
  const Origin origin = origin_of(key);
  std::vector<std::string> known = validation.metrics;
  known.insert(known.begin(), "loss");
  if (training.ema_decay) {
    for (size_t i = 0, count = known.size(); i < count; ++i) known.push_back(kAveraged + known[i]);
  }
  if (!has_split(data, Split::val)) {
    diagnostics.error(origin, "needs validation samples: name them in data.val");
  } else if (std::ranges::find(known, metric) == known.end()) {
    diagnostics.error(origin, fmt::format("'{}' is not a metric of this recipe; expected one of: {}", metric,
                                          fmt::join(known, ", ")));
  }
}

void Recipe::check_split(Diagnostics& diagnostics) const {
  if (data.split_by && data.split_by->empty())
    diagnostics.error(origin_of("data.split_by"), "must be the name of a column, got ''");
  if (data.split_by && !data.chosen_format().takes_groups())
    diagnostics.error(
        origin_of("data.split_by"),
        fmt::format("names a column, and data.format {} has none; it is for {}", data.format,
                    fmt::join(formats_that([](const DataFormat& format) { return format.takes_groups(); }),
                              " and ")));
  if (!data.divides_train()) {
    if (data.split_by)
      diagnostics.error(origin_of("data.split_by"),
                        "divides the samples of data.val_fraction, which is 0, or of data.fold");
    return;
  }
  if (data.folds > 0 && data.val_fraction > 0)
    diagnostics.error(origin_of("data.fold"),
                      "data.val_fraction divides the samples too; keep one of the two");
  if (data.folds == 1) diagnostics.error(origin_of("data.fold.of"), "must be at least 2, got 1");
  if (data.folds > 1 && data.fold >= data.folds)
    diagnostics.error(origin_of("data.fold.index"),
                      fmt::format("must be below {}, the number of parts, got {}", data.folds, data.fold));
  if (model.kind() == InputKind::series) {
    for (const auto& [key, is_given] :
         {std::pair("data.fold", data.folds > 0), std::pair("data.split_by", data.split_by.has_value())}) {
      if (is_given)
        diagnostics.error(origin_of(key),
                          "does not divide series, whose validation is the end of each; use "
                          "data.val_fraction alone, or data.val");
    }
  }
  if (data.folds > 0 && model.kind() == InputKind::tokens)
    diagnostics.error(origin_of("data.fold"),
                      "does not divide a text, whose validation is its end; use data.val_fraction");
  const Origin origin = origin_of(data.folds > 0 ? "data.fold" : "data.val_fraction");
  if (data.val && !data.val->empty()) {
    diagnostics.error(origin, "data.val already names validation samples; keep one of the two");
  } else if (!data.chosen_format().reads_files()) {
    diagnostics.error(origin,
                      "does not apply to data.format " + data.format + "; set data.synthetic.val_samples");
  }
}

void Recipe::check_batches(Diagnostics& diagnostics) const {
  const std::optional<AutoCount>& rows = training.micro_batch_size;
  if (rows && rows->count && training.global_batch_size % *rows->count != 0) {
    diagnostics.error(
        origin_of("training.micro_batch_size"),
        fmt::format("must divide global_batch_size {}, got {}", training.global_batch_size, *rows->count));
  }
  if (optimizer->lr_scaling != "linear" && !optimizer->lr_for_batch) {
    diagnostics.error(optimizer->origin_of("lr_scaling"),
                      "needs lr_for_batch: the training.global_batch_size that lr holds for");
  }
  if (data.images.mix.any() && training.global_batch_size < 2) {
    diagnostics.error(origin_of("data.mix"),
                      "mixes samples within a batch: training.global_batch_size must be at least 2, got 1");
  }
}

Value Recipe::value_of(const std::string& path) const {
  const Value all = fields_.resolved(Fields::Form::mathematics);
  const Value::Entry* found = find_path(all, path);
  if (found == nullptr) throw std::logic_error("no key '" + path + "' alters the numbers of a run");
  return found->value;
}

bool Recipe::is_left_to_samples(const std::string& path) const {
  const Value::Entry* given = find_path(given_, path);
  return given != nullptr && reads_environment(given->value);
}

std::vector<std::string> Recipe::files() const {
  std::set<std::string> files = {file_};
  add_files(given_, files);
  files.erase(kCommandLine);
  return {files.begin(), files.end()};
}

Origin Recipe::origin_of(const std::string& path) const {
  const Value::Entry* found = find_path(given_, path);
  if (found != nullptr) return {found->where, path};
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {{.file = file_}, path};
  return {origin_of(path.substr(0, dot)).where, path};
}

}  // namespace trainer
