// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/changed.h"

#include <fstream>
#include "tests/catch.h"

#include "core/recipe/recipe.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

/// The changed keys of a recipe, read from the recipe.yaml that its run would have.
std::vector<ChangedSetting> changed_of(const std::string& text) {
  const test::ScratchDirectory scratch;
  std::ofstream(scratch / "recipe.yaml") << Recipe::parse(text, "text", {})->to_yaml(false);
  return changed_settings(read_settings(scratch.path()));
}

std::string text_of(const std::vector<ChangedSetting>& changed) {
  std::string text;
  for (const ChangedSetting& each : changed) text += each.key + "=" + each.value + " (" + each.usual + ")\n";
  return text;
}

}  // namespace

TEST_CASE("the changed keys of a recipe are those that it sets to other values than the defaults") {
  const std::string recipe = R"(version: 1
run: {name: small}
model: {input: [1, 8, 8], layers: [flatten, linear: {out_features: 4, bias: false}, relu, linear: {out_features: 2}]}
data: {format: synthetic}
)";
  const std::string usual = text_of(changed_of(recipe));
  CHECK(usual.find("model.layers=4: flatten, linear, relu, linear ([])\n") != std::string::npos);
  CHECK(usual.find("optimizer") == std::string::npos);
  CHECK(usual.find("run.") == std::string::npos);
  CHECK(usual.find("guards") == std::string::npos);
  const std::string changed =
      text_of(changed_of(recipe + "optimizer: {name: adamw, lr: 0.003}\ntraining: {global_batch_size: 16}\n"
                                  "validation: {metrics: [top1, top5]}\n"));
  CHECK(changed.find("optimizer.lr=0.003 (") == 0);
  CHECK(changed.find("\ntraining.global_batch_size=16 (") != std::string::npos);
  CHECK(changed.find("\noptimizer.name=adamw (sgd)\n") != std::string::npos);
  CHECK(changed.find("\nvalidation.metrics=[top1, top5] (") != std::string::npos);
  CHECK(changed.find("optimizer.betas") == std::string::npos);  // a default of adamw
}

TEST_CASE("the changed keys of an unknown or damaged recipe are all its keys") {
  CHECK(changed_settings({}).empty());
  CHECK(changed_settings({{"", "null"}}).empty());
  CHECK(text_of(changed_settings({{"other.key", "5"}, {"a[", "1"}, {"b[x].y", "2"}, {"c[0", "3"}})) ==
        "other.key=5 ()\n");
  CHECK(text_of(changed_settings({{"list[0]", "a"}, {"list[1].b.c", "1"}, {"list[1].b.d", "2"}})) ==
        "list=2: a, b ([])\n");
}

}  // namespace trainer
