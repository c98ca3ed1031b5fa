// SPDX-License-Identifier: Apache-2.0
#include "core/session/settings.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include "tests/catch.h"

#include "core/recipe/keys.h"
#include "tests/reference/thread_group.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;

const char* const kSettings = R"(version: 1
run: {name: small, seed: 3}
model:
  input: [1, 8, 8]
  layers: [flatten, {linear: 16}, tanh, {linear: 5}]
data: {format: synthetic, synthetic: {train_samples: 160, val_samples: 40}}
training: {max_duration: 20ba, global_batch_size: 16}
)";

std::shared_ptr<const Recipe> recipe_with(const std::vector<std::string>& words) {
  return Recipe::parse(kSettings, "r.yaml", words);
}

using Words = std::vector<std::string>;

const Words kFolder = {"data.format=image_folder", "data.train=a", "model.input=[3, 8, 8]",
                       "data.augment=[{random_resized_crop: 8}]",
                       "data.eval_transform=[{resize: 8}, {center_crop: 8}]"};
const Words kTokens = {
    "data.format=tokens", "data.train=a",
    "data.end_of_text=1", "model.input_kind=tokens",
    "model.input=[8]",    "model.layers=[{embedding: {vocab_size: 9, features: 4}}, {linear: 9}]"};
const Words kBytes = [] {
  Words words = kTokens;
  words.emplace_back("data.tokenizer=bytes");
  return words;
}();

const Words kTable = {"data.format=table",    "data.train=a.csv",          "data.table.target=y",
                      "model.input=[8]",      "model.input_kind=features", "model.layers=[{linear: 5}]",
                      "data.val_fraction=0.5"};

const Words kSeries = {
    "data.format=table",  "data.train=a.csv",        "data.table={target: y, window: {time: t, length: 4}}",
    "model.input=[4, 2]", "model.input_kind=series", "model.layers=[flatten, {linear: 5}]"};

const Words kText = {"data.format=table",
                     "data.train=a.csv",
                     "data.table={target: y, text: t}",
                     "model.input=[8]",
                     "model.input_kind=text",
                     "model.layers=[{embedding: {vocab_size: 256, features: 4}}, mean_tokens, {linear: 5}]"};

const Words kTaught = {"loss={name: distillation, teacher: {recipe: big.yaml, weights: big.safetensors}}"};

/// Keys that are allowed beside others only.
const std::map<std::string, Words> kBeside = {
    {"logging.mlflow.experiment", {"logging.mlflow.uri=http://host"}},
    {"compression.quantize.activation_bits", {"compression.quantize.weight_bits=7"}},
    {"compression.quantize.begin", {"compression.quantize.weight_bits=7"}},
    {"compression.quantize.except", {"compression.quantize.weight_bits=7"}},
    {"compression.quantize.scales", {"compression.quantize.weight_bits=7"}},
    {"compression.quantize.weights", {"compression.quantize.weight_bits=7"}},
    {"compression.prune.begin", {"compression.prune.sparsity=0.5"}},
    {"compression.prune.end", {"compression.prune.sparsity=0.5"}},
    {"compression.prune.every", {"compression.prune.sparsity=0.5"}},
    {"compression.prune.except", {"compression.prune.sparsity=0.5"}},
    {"compression.prune.only", {"compression.prune.sparsity=0.5"}},
    {"compression.prune.pattern", {"compression.prune.sparsity=0.5"}},
    {"compression.prune.scope", {"compression.prune.sparsity=0.5"}},
    {"data.corruption", {"loss.name=mse"}},
    {"data.split_by", kTable},
    {"data.table.text", kText},
    {"data.table.window.by", kSeries},
    {"data.table.window.horizon", kSeries},
    {"data.table.window.length", kSeries},
    {"data.table.window.stride", kSeries},
    {"data.table.window.time", kSeries},
    {"data.fold.of", kFolder},
    {"model.categories", kTable},
    {"data.end_of_text", kTokens},
    {"data.eval_transform", kFolder},
    {"data.labels", kFolder},
    {"data.mask_documents", kTokens},
    {"data.tokenizer", kBytes},
    {"data.val_fraction", kFolder},
    {"loss.alpha", kTaught},
    {"loss.teacher.recipe", kTaught},
    {"loss.teacher.weights", kTaught},
    {"loss.temperature", kTaught},
    {"lr_scheduler.metric", {"lr_scheduler.name=plateau", "lr_scheduler.metric=loss"}},
    {"lr_scheduler.milestones", {"lr_scheduler.name=multi_step", "lr_scheduler.milestones=[3ba]"}},
    {"model.replace", {"model.initial_weights=w.safetensors"}},
    {"validation.early_stop.min_delta", {"validation.early_stop.metric=loss"}},
    {"validation.early_stop.patience", {"validation.early_stop.metric=loss"}}};

/// Keys that another value changes together with others only.
const Words kRepeats = {"sweep.repeat={key: run.seed, values: [1]}"};
const std::map<std::string, Words> kTogether = {
    {"data.format", kFolder},
    {"model.input_kind", kTokens},
    {"optimizer.lr_scaling", {"optimizer.lr_for_batch=8", "optimizer.lr_scaling=sqrt"}},
    {"sweep.parameters", {"sweep.parameters=[{uniform: {key: optimizer.lr, from: 0, to: 1}}]"}},
    {"sweep.repeat.key", kRepeats},
    {"sweep.repeat.values", kRepeats}};

/// A recipe and what it settles, by the words that make it.
const RunIdentity& settings_with(const Words& words) {
  static std::map<Words, RunIdentity> known;
  const auto found = known.find(words);
  if (found != known.end()) return found->second;
  return known.emplace(words, shared_settings(recipe_with(words), {})).first->second;
}

/// The keys in which a recipe with `more` differs from one with `words` alone; nothing if it is refused.
std::optional<std::vector<Difference>> changed_by(Words words, const std::string& more) {
  const RunIdentity& before = settings_with(words);
  words.push_back(more);
  try {
    return differences(before, shared_settings(recipe_with(words), {}));
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has_key(const RunIdentity& settings, const std::string& key) {
  const auto found = settings.values.lower_bound(key);
  return found != settings.values.end() && found->first.starts_with(key);
}

/// What may stand beside a key so that the recipe has it: other keys, or the name of its component.
std::vector<Words> surroundings(const RecipeKey& key, const std::vector<RecipeKey>& all) {
  if (const auto beside = kBeside.find(key.path); beside != kBeside.end()) return {beside->second};
  std::vector<Words> found = {{}};
  const std::string name = key.path.substr(0, key.path.rfind('.')) + ".name";
  const auto component = std::ranges::find(all, name, &RecipeKey::path);
  if (component == all.end() || key.path == name) return found;
  const std::set<std::string> wants_more = {"plateau", "multi_step", "distillation"};
  for (const std::string& choice : component->values) {
    if (!wants_more.contains(choice)) found.push_back({name + "=" + choice});
  }
  found.push_back(kBeside.at("lr_scheduler.metric"));
  found.push_back(kBeside.at("lr_scheduler.milestones"));
  return found;
}

/// What another valid value of the key changes; empty if none was found.
std::vector<Difference> change(const RecipeKey& key, const std::vector<RecipeKey>& keys) {
  if (const auto words = kTogether.find(key.path); words != kTogether.end())
    return differences(settings_with({}), settings_with(words->second));
  Words values = key.values;
  for (const char* value : {"2",
                            "5ba",
                            "7s",
                            "0.5",
                            "x",
                            "loss",
                            "top1",
                            "[1]",
                            "16",
                            "3",
                            "1MiB",
                            "auto",
                            "1",
                            "1.5",
                            "0.25",
                            "[5ba]",
                            "full",
                            "[top5]",
                            "[csv]",
                            "[bias]",
                            "x.json",
                            "http://host",
                            "[horizontal_flip]",
                            "[gaussian_noise]",
                            "[1, 9, 9]",
                            "[flatten, {linear: 5}]",
                            "[{resize: 9}, {center_crop: 8}]",
                            "null",
                            "[{pattern: \"*\", lr_factor: 2}]"})
    values.emplace_back(value);
  for (const Words& words : surroundings(key, keys)) {
    if (!has_key(settings_with(words), key.path)) continue;
    for (const std::string& value : values) {
      const auto changed = changed_by(words, key.path + "=" + value);
      if (changed && !changed->empty()) return *changed;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("every key of a recipe is compared among ranks, but for those about a rank's part of its machine") {
  const std::set<std::string> of_one_rank = {"device.index", "device.memory", "device.threads"};
  const std::vector<RecipeKey> keys = recipe_keys();
  std::vector<std::string> unchanged;
  for (const RecipeKey& key : keys) {
    if (key.path == "version") continue;  // it has one valid value
    const std::vector<Difference> all = change(key, keys);
    if (all.empty()) {
      unchanged.push_back(key.path);
      continue;
    }
    INFO(key.path << ": " << difference_text(all));
    const auto is_about = [&](const Difference& each) {
      return each.path.starts_with(key.path.substr(0, key.path.rfind(".name")));
    };
    CHECK(std::ranges::any_of(all, is_about));
    RunIdentity first, own;
    for (const Difference& each : all) {
      first.values[each.path] = each.before;
      own.values[each.path] = each.after;
    }
    CHECK(setting_differences(first, own).empty() == of_one_rank.contains(key.path));
  }
  // What these name is read in, and compared as layers.
  CHECK(unchanged == std::vector<std::string>{"model.network", "model.templates"});
}

namespace {

/// The errors of three ranks with these arguments.
std::vector<std::string> errors_of(
    const std::vector<std::vector<std::string>>& words,
    const std::vector<SessionRequest>& options = std::vector<SessionRequest>(3)) {
  test::ThreadGroup table(words.size());
  std::vector<std::string> texts(words.size());
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    threads.emplace_back([&, rank] {
      test::ThreadProcessGroup seat(table, rank);
      const auto recipe = recipe_with(words[rank]);
      try {
        require_same_settings(recipe, options[rank], seat);
      } catch (const Error& problem) {
        texts[rank] = problem.code() == ExitCode::recipe ? problem.what() : "another code";
      }
    });
  }
  threads.clear();
  return texts;
}

}  // namespace

TEST_CASE("a rank with another recipe is refused with the key, both values, both hosts and the place") {
  const auto same = errors_of({{"device.threads=1"}, {"device.threads=2"}, {"device.memory=1GiB"}});
  CHECK(same == std::vector<std::string>(3));
  const auto one = errors_of({{}, {}, {"validation.interval=3ba"}});
  CHECK_THAT(one[2],
             Matches("rank 2 on \\S+ has validation.interval=3ba \\(command line:1:.*\\), but rank 0 on "
                     "\\S+ has 1ep; start all ranks with the same program, recipe and arguments"));
  CHECK_THAT(one[0], ContainsSubstring("rank 2 cannot go on"));
  const auto first = errors_of({{"run.seed=4", "logging.interval=7ba"}, {}, {}});
  CHECK_THAT(first[1], ContainsSubstring("has logging.interval=50ba (r.yaml") &&
                           ContainsSubstring("has 7ba; run.seed differs too; start"));
  CHECK(first[0] != "");
}

TEST_CASE("a rank with other options is refused") {
  const auto profiled = errors_of({{}, {}, {}}, {{}, {.profiled_steps = 3}, {}});
  CHECK_THAT(profiled[1], ContainsSubstring("has --profile=3 (command line), but rank 0"));
  // Of a component's keys its name comes first.
  const auto loss = errors_of({{}, {"loss.name=focal"}, {}});
  CHECK_THAT(loss[1],
             ContainsSubstring("has loss.name=focal (") && ContainsSubstring(" has cross_entropy; "));
  const auto passes = errors_of({{}, {}, {}}, {{}, {.disabled_passes = {"fuse_relu"}}, {}});
  CHECK_THAT(passes[1], ContainsSubstring("has --disable-pass=fuse_relu (command line)"));
}

TEST_CASE("an environment variable that differs among ranks is a difference") {
  setenv("TRAINER_TEST_INTERVAL", "2ba", 1);
  const auto one = recipe_with({"validation.interval=${env:TRAINER_TEST_INTERVAL}"});
  const RunIdentity before = shared_settings(one, {});
  setenv("TRAINER_TEST_INTERVAL", "3ba", 1);
  const auto other = recipe_with({"validation.interval=${env:TRAINER_TEST_INTERVAL}"});
  const auto all = setting_differences(before, shared_settings(other, {}));
  REQUIRE(all.size() == 1);
  CHECK(all[0].path == "validation.interval");
  CHECK_THAT(difference_text(all), !ContainsSubstring("3ba"));  // it may be a secret
  CHECK(setting_differences(before, shared_settings(recipe_with({"validation.interval=2ba"}), {})).empty());
  const auto of_plain = errors_of({{"validation.interval=${env:TRAINER_TEST_INTERVAL}"}, {}, {}});
  CHECK_THAT(of_plain[1], ContainsSubstring("has validation.interval=1ep (") &&
                              ContainsSubstring("has (an environment variable's value); start"));
}

}  // namespace trainer
