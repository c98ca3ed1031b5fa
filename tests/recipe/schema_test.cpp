// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/schema.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include "tests/catch.h"

#include "core/base/regular_file.h"
#include "tests/recipe/json_schema.h"
#include "tests/recipe/mutation.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = TRAINER_SOURCE_DIR;

std::vector<std::string> complaints(const JsonSchema& schema, const std::string& text,
                                    const std::string& definition) {
  Diagnostics diagnostics;
  const Value value = parse_yaml(text, "text", diagnostics);
  diagnostics.throw_if_any();
  return schema.complaints(value, definition);
}

/// Calls `each` with the text of every YAML file of a folder.
template <class Each>
void for_each_file(const fs::path& folder, Each each) {
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path());
    each(read_text(entry.path()).value());
    ++files;
  }
  CHECK(files > 3);
}

/// Requires that the schema refuses the text with this key misspelt, of another type, and at the top level.
void check_spoilt(const JsonSchema& schema, const std::string& text, const KeyPlace& key,
                  const std::string& definition) {
  std::vector<Mutation> mutations = misspellings(text, key);
  mutations.push_back(wrong_type(text, key));
  const bool top_level = key.path.find_first_of(".[") == std::string::npos;
  // parallelism.data would be a second `data`, which is no matter of the schema.
  const bool is_twice = text.find("\n" + key.key + ":") != std::string::npos;
  if (!top_level && !is_twice && !key.is_only_item && !key.leads_item)
    mutations.push_back(wrong_level(text, key));
  for (const Mutation& mutation : mutations) {
    INFO(mutation.what << "\n" << mutation.text);
    CHECK_FALSE(complaints(schema, mutation.text, definition).empty());
  }
}

/// Only the network knows names and arguments of templates: there only layers' own keys are checked.
bool is_judged(const std::string& text, const KeyPlace& key) {
  static const std::regex templates(R"(\n *templates:)"),
      of_network(R"(^(model\.)?(templates$|(layers|templates)[.[]))"),
      of_layer(R"(\]\.(conv2d|batch_norm|linear|max_pool2d|dropout|add)\.[a-z_]+$)");
  return !std::regex_search(text, templates) || !std::regex_search(key.path, of_network) ||
         std::regex_search(key.path, of_layer);
}

}  // namespace

TEST_CASE("the schema accepts every shipped recipe and network") {
  const JsonSchema schema(recipe_schema());
  for_each_file(kSource / "configs", [&](const std::string& text) {
    CHECK(complaints(schema, text, "") == std::vector<std::string>{});
  });
  for_each_file(kSource / "configs/models", [&](const std::string& text) {
    CHECK(complaints(schema, text, "network") == std::vector<std::string>{});
  });
}

TEST_CASE("every shipped recipe and network names the schema for editors") {
  const std::filesystem::path configs = std::filesystem::path(TRAINER_SOURCE_DIR) / "configs";
  size_t files = 0;
  for (const auto& [folder, definition] : {std::pair<std::filesystem::path, std::string>(configs, ""),
                                           {configs / "models", "#/definitions/network"}}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".yaml") continue;
      INFO(entry.path().string());
      std::ifstream file(entry.path());
      std::string licence, line;
      std::getline(file, licence), std::getline(file, line);
      const std::string begin = "# yaml-language-server: $schema=";
      REQUIRE(line.starts_with(begin));
      REQUIRE(line.ends_with(definition));
      const std::string path = line.substr(begin.size(), line.size() - begin.size() - definition.size());
      CHECK(std::filesystem::exists(folder / path));
      ++files;
    }
  }
  CHECK(files > 20);
}

TEST_CASE("the schema accepts every form of a value, and its own defaults") {
  const JsonSchema schema(recipe_schema());
  CHECK(schema.wrong_defaults() == std::vector<std::string>{});
  for (const char* text : {
           "model: {input: [1, 8, 8], layers: [flatten, linear: 4, linear: {out_features: 3, name: "
           "2}]}\ndata: {}\n",
           "model: {network: n.yaml}\ndata: {}\noptimizer: adamw\nrun:\n",
           "model: {network: n.yaml}\ndata: {}\noptimizer: {lr: 1}\ntraining: {max_duration: "
           "'${env:HOME}'}\n",
           "model: {network: n.yaml}\ndata: {workers: \"${env:PATH}\"}\ndevice: {memory: 4GiB}\n",
           "model: {network: n.yaml}\ndata: {}\ndevice: {memory: 4096}\noptimizer: {clip_norm: null}\n",
       }) {
    INFO(text);
    CHECK(complaints(schema, text, "") == std::vector<std::string>{});
  }
}

TEST_CASE("the schema refuses what is wrong whatever the data are") {
  const JsonSchema schema(recipe_schema());
  for (const char* text : {
           "data: {}\n",
           "model: {input: [1, 8, 8]}\ndata: {}\n",
           "model: {input: [1, 8, 8], layers: [flaten]}\ndata: {}\n",
           "model: {input: [1, 8, 8], layers: [linear]}\ndata: {}\n",
           "model: {input: [1, 8, 8], layers: [{linear: 0}]}\ndata: {}\n",
           "model: {input: [1, 8, 8], layers: [{linear: 4, relu: }]}\ndata: {}\n",
           "model: {input: [1, 8, 8], layers: [{conv2d: {out_channels: 4, kernel_size: [3, 3, 3]}}]}\ndata: "
           "{}\n",
           "model: {network: n.yaml}\ndata: {}\noptimizer: adan\n",
           "model: {network: n.yaml}\ndata: {}\noptimizer: {name: adamw, momentum: 0.9}\n",
           "model: {network: n.yaml}\ndata: {}\noptimizer: {momentum: 1}\n",
           "model: {network: n.yaml}\ndata: {}\ntraining: {max_duration: 0ep}\n",
           "model: {network: n.yaml}\ndata: {}\ntraining: {max_duration: 10}\n",
           "model: {network: n.yaml}\ndata: {}\ntraining: {global_batch_size: 1.5}\n",
           "model: {network: n.yaml}\ndata: {}\ndevice: {memory: 4GB}\n",
           "model: {network: n.yaml}\ndata: {}\nvalidation: {metrics: [top9]}\n",
       }) {
    INFO(text);
    CHECK_FALSE(complaints(schema, text, "").empty());
  }
  for (const char* name : {"unknown_key", "out_of_bounds", "wrong_nesting", "no_network"}) {
    INFO(name);
    const std::string text = read_text(kSource / "tests/recipe/bad" / (std::string(name) + ".yaml")).value();
    CHECK_FALSE(complaints(schema, text, "").empty());
  }
}

TEST_CASE("the schema refuses every spoilt key of the shipped recipes, and of networks without templates") {
  const JsonSchema schema(recipe_schema());
  const auto check_file = [&](const std::string& text, const std::string& place) {
    const std::vector<KeyPlace> keys = find_keys(text);
    constexpr size_t kStep = few_or_all<size_t>(11, 1);
    for (size_t i = text.size() % kStep; i < keys.size(); i += kStep) {
      if (is_judged(text, keys[i])) check_spoilt(schema, text, keys[i], place);
    }
  };
  for_each_file(kSource / "configs", [&](const std::string& text) { check_file(text, ""); });
  for_each_file(kSource / "configs/models", [&](const std::string& text) { check_file(text, "network"); });
}

TEST_CASE("docs hold the schema and the reference of this program") {
  INFO("run: trainer schema > docs/recipe.schema.json; trainer schema --markdown > docs/recipe-reference.md");
  CHECK(read_text(kSource / "docs/recipe.schema.json") == recipe_schema());
  CHECK(read_text(kSource / "docs/recipe-reference.md") == recipe_reference());
}

}  // namespace trainer
