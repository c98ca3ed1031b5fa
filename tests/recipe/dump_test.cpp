// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/catch.h"

#include "core/recipe/assemble.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

/// A recipe of a shipped network.
std::shared_ptr<const Recipe> recipe_with_network(const fs::path& network,
                                                  std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"model.network=" + network.stem().string(), "data.augment=[]",
                                     "data.eval_transform=[]", "data.format=synthetic"});
  return Recipe::load(std::string(TRAINER_SOURCE_DIR) + "/configs/fashion_mnist_mlp.yaml", overrides);
}

std::vector<fs::path> shipped_networks() {
  const fs::directory_iterator files(std::string(TRAINER_SOURCE_DIR) + "/configs/models");
  return {begin(files), end(files)};
}

/// The path that an error about this part of a recipe shows.
std::string path_in_error(const Origin& origin) {
  Diagnostics diagnostics;
  diagnostics.error(origin, "wrong");
  const std::string before = to_string(origin.where) + ": error: ", shown = diagnostics.problems()[0];
  REQUIRE(shown.starts_with(before));
  return shown.substr(before.size(), shown.find(": wrong") - before.size());
}

}  // namespace

TEST_CASE("what --dump-config prints makes the same recipe, templates written out") {
  const fs::path copy = fs::temp_directory_path() / ("dump-" + std::to_string(getpid()) + ".yaml");
  size_t networks = 0;
  for (const fs::path& network : shipped_networks()) {
    INFO(network);
    const auto recipe = recipe_with_network(network, {});
    for (bool sources : {false, true}) {
      const std::string text = recipe->to_yaml(sources);
      CHECK(text.find("templates") == std::string::npos);
      CHECK(text.find("${") == std::string::npos);
      std::ofstream(copy) << text;
      const auto again = Recipe::load(copy, {});
      CHECK(again->identity().mathematics == recipe->identity().mathematics);
      CHECK(again->identity().values == recipe->identity().values);
      REQUIRE(again->model.layers.size() == recipe->model.layers.size());
      for (size_t i = 0; i < again->model.layers.size(); ++i) {
        CHECK(again->model.layers[i]->name == recipe->model.layers[i]->name);
        CHECK(again->model.layers[i]->inputs == recipe->model.layers[i]->inputs);
      }
    }
    ++networks;
  }
  fs::remove(copy);
  CHECK(networks > 4);
}

TEST_CASE("the dump of each shipped recipe makes a recipe that builds, with the same dump") {
  const fs::path copy = fs::temp_directory_path() / ("dumped-" + std::to_string(getpid()) + ".yaml");
  size_t recipes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TRAINER_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path());
    const std::string dump = Recipe::load(entry.path(), {})->to_yaml(false);
    std::ofstream(copy) << dump;
    const auto again = Recipe::load(copy, {});
    CHECK(again->to_yaml(false) == dump);
    CHECK_NOTHROW(forward_program(again));
    ++recipes;
  }
  fs::remove(copy);
  CHECK(recipes > 15);
}

TEST_CASE("the identity of each shipped recipe is read again from the text that runs store") {
  namespace fs = std::filesystem;
  size_t recipes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TRAINER_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path());
    const RunIdentity here = Recipe::load(entry.path(), {})->identity();
    const std::optional<RunIdentity> stored = parse_identity(here.mathematics);
    REQUIRE(stored);
    CHECK(stored->values == here.values);
    CHECK(differences(*stored, here).empty());
    const RunIdentity faster = Recipe::load(entry.path(), {"optimizer.lr=0.7125"})->identity();
    const std::vector<Difference> different = differences(*stored, faster);
    REQUIRE(different.size() == 1);
    CHECK(different[0].path == "optimizer.lr");
    CHECK(different[0].after == "0.7125");
    ++recipes;
  }
  CHECK(recipes > 4);
}

TEST_CASE("overrides reach templates, their arguments and uses, counted as they are written") {
  const std::string recipe = std::string(TRAINER_SOURCE_DIR) + "/configs/resnet18_cifar10.yaml";
  const auto deeper = Recipe::load(recipe, {"model.layers[3].basic_stage.blocks=5"});
  const auto shipped = Recipe::load(recipe, {});
  CHECK(deeper->model.layers.size() == shipped->model.layers.size() + 3 * 7);
  CHECK_THROWS_WITH(
      Recipe::load(recipe, {"model.layers[3].basic_stage.blocks=0"}),
      Catch::Matchers::StartsWith(std::string(TRAINER_SOURCE_DIR) + "/configs/models/resnet18.yaml:") &&
          Catch::Matchers::ContainsSubstring("model.templates.basic_stage.layers[1].repeat: "
                                             "expected how often, a whole number of at least 0, found '-1'; "
                                             "used at " +
                                             std::string(TRAINER_SOURCE_DIR) +
                                             "/configs/models/resnet18_32.yaml:10:5"));
  const auto smaller = Recipe::load(recipe, {"model.templates.basic_block.layers[2]=tanh"});
  CHECK(smaller->model.layers[5]->chosen_as == "tanh");
  CHECK_THROWS_WITH(
      Recipe::load(recipe, {"model.templates=nowhere.yaml"}),
      Catch::Matchers::StartsWith(
          "command line:1:7: error: cannot read nowhere.yaml, relative to the working directory ") &&
          Catch::Matchers::EndsWith("1 error, nothing was started"));
}

TEST_CASE("the path that an error shows is an override, for each layer of each shipped network") {
  size_t overridden = 0, in_templates = 0;
  for (const fs::path& network : shipped_networks()) {
    std::set<std::string> paths;
    const auto recipe = recipe_with_network(network, {});
    for (const auto& layer : recipe->model.layers) paths.insert(path_in_error(layer->origin));
    for (const std::string& path : paths) {
      INFO(network << " " << path);
      CHECK_THROWS_WITH(
          recipe_with_network(network, {path + "={of_a_test: 1}"}),
          Catch::Matchers::ContainsSubstring("command line:1:") &&
              Catch::Matchers::ContainsSubstring("error: " + path + ": unknown key 'of_a_test'; known keys"));
      ++overridden;
      in_templates += path.starts_with("model.templates.") ? 1 : 0;
    }
  }
  CHECK(overridden > 100);
  CHECK(in_templates > 50);
}

TEST_CASE("an override with the path of an error corrects the value that was wrong") {
  const fs::path unet = "unet_small", vgg = "vgg16";
  CHECK_THROWS_WITH(forward_program(recipe_with_network(vgg, {"model.input=[3, 8, 8]"})),
                    Catch::Matchers::ContainsSubstring(
                        "error: model.templates.vgg_stage.layers[1].max_pool2d: a 2x2 window does not fit"));
  CHECK_NOTHROW(forward_program(recipe_with_network(
      vgg, {"model.input=[3, 8, 8]", "model.templates.vgg_stage.layers[1].max_pool2d=1"})));
  // A layer of the network's own list is counted as it is written, whatever templates stand before it.
  CHECK_THROWS_WITH(recipe_with_network(unet, {"model.layers[16].conv2d.kernel_size=0"}),
                    Catch::Matchers::StartsWith(
                        "command line:1:25: error: model.layers[16].conv2d.kernel_size: must be at least 1"));
  CHECK_THROWS_WITH(
      recipe_with_network("resnet18", {"model.num_classes=4294967296"}),
      Catch::Matchers::StartsWith("command line:1:7: error: model.num_classes: must be at least 1"));
  CHECK(recipe_with_network("resnet18", {"model.layers[2].relu={name: first}"})->model.layers[2]->name ==
        "first");
}

TEST_CASE(
    "an identity keeps the first names of keys, also of hidden values; a difference has their present "
    "names") {
  const std::string text = R"(version: 1
model:
  input: [8]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 9, features: 4}
    - attention: {heads: 2, causal: true, sliding_window: 3}
    - linear: 9
data: {format: tokens, train: shard.bin, end_of_text: 1, mask_documents: true}
)";
  const auto identity_with = [&](const std::string& word) {
    return Recipe::parse(text, "r.yaml", {word})->identity();
  };
  const std::string size = "model.layers[0].embedding.vocab_size=";
  const RunIdentity here = identity_with(size + "9");
  for (const char* line : {"        vocabulary: 9\n", "        window: 3\n", "  documents: separate\n"})
    CHECK_THAT(here.mathematics, Catch::Matchers::ContainsSubstring(line));
  setenv("SIZE_OF_A_TEST", "9", 1);
  const RunIdentity hidden = identity_with(size + "${env:SIZE_OF_A_TEST}");
  CHECK(hidden.mathematics != here.mathematics);
  CHECK(differences(here, hidden).empty());
  const auto changed = differences(identity_with(size + "11"), hidden);
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].path == "model.layers[0].embedding.vocab_size");
  const RunIdentity joined = identity_with("data.mask_documents=false");
  CHECK(differences(here, joined)[0].before == "true");
  CHECK(forbidden_differences(here, joined, {"data.documents"}).empty());
  CHECK_FALSE(forbidden_differences(here, joined, {"data.document"}).empty());
  const auto directory = [&](const std::string& named) {
    return Recipe::parse(text, "r.yaml", {"run.output_dir=runs/" + named})->output_directory();
  };
  CHECK(directory("{data.documents}") == "runs/separate");
  CHECK(directory("{data.mask_documents}") == "runs/true");
}

TEST_CASE("of what ranks do, only what they share of batch normalisation is part of a run's identity") {
  const std::string path = TRAINER_SOURCE_DIR "/configs/fashion_mnist_mlp.yaml";
  const RunIdentity one = Recipe::load(path, {})->identity();
  const RunIdentity ranks = Recipe::load(path, {"parallelism.data=4", "parallelism.bucket=1MiB",
                                                "parallelism.timeout=5s", "parallelism.shard_optimizer=true"})
                                ->identity();
  CHECK(differences(one, ranks).empty());
  const RunIdentity synchronised = Recipe::load(path, {"parallelism.sync_batch_norm=true"})->identity();
  const std::vector<Difference> different = differences(one, synchronised);
  REQUIRE(different.size() == 1);
  CHECK(different[0].path == "parallelism.sync_batch_norm");
}

TEST_CASE(
    "the interval of evaluations is part of a run's identity where they decide on its rate or its end") {
  const std::string path = TRAINER_SOURCE_DIR "/configs/fashion_mnist_mlp.yaml";
  const auto changes = [&](std::vector<std::string> settings, const std::string& other) {
    const RunIdentity one = Recipe::load(path, settings)->identity();
    REQUIRE(parse_identity(one.mathematics)->values == one.values);
    settings.push_back(other);
    std::vector<std::string> paths;
    for (const Difference& each : differences(one, Recipe::load(path, settings)->identity()))
      paths.push_back(each.path);
    return paths;
  };
  using Paths = std::vector<std::string>;
  const std::string often = "validation.interval=7ba";
  CHECK(changes({}, often).empty());
  CHECK(changes({"lr_scheduler={name: plateau}"}, often) == Paths{"validation.interval"});
  const std::vector<std::string> stops = {"validation.early_stop={metric: loss}"};
  CHECK(changes(stops, often) == Paths{"validation.interval"});
  CHECK(changes(stops, "validation.early_stop.patience=9") == Paths{"validation.early_stop.patience"});
}

}  // namespace trainer
