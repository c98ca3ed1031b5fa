// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include "tests/catch.h"

#include "core/recipe/assemble.h"

namespace trainer {

namespace fs = std::filesystem;

TEST_CASE("what --dump-config prints makes the same recipe, templates written out") {
  const fs::path source = TRAINER_SOURCE_DIR;
  const fs::path copy = fs::temp_directory_path() / ("dump-" + std::to_string(getpid()) + ".yaml");
  size_t networks = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(source / "configs/models")) {
    INFO(entry.path());
    const auto recipe = Recipe::load(source / "configs/fashion_mnist_mlp.yaml",
                                     {"model.network=" + entry.path().stem().string(), "data.augment=[]",
                                      "data.eval_transform=[]", "data.format=synthetic"});
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
          Catch::Matchers::ContainsSubstring("model.layers[10].repeat: expected how "
                                             "often, a whole number of at least 0, found "
                                             "'-1'; used at " +
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
