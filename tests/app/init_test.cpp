// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include "tests/catch.h"

#include "tests/app/command.h"
#include "tests/app/images.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

Outcome run_in(const Workspace& workspace, const std::vector<std::string>& words, int expected = 0) {
  Outcome outcome = run_trainer(words, workspace.path());
  INFO(outcome.errors);
  CHECK(outcome.code == expected);
  return outcome;
}

}  // namespace

TEST_CASE("from a folder of images to a predicted class") {
  const Workspace workspace;
  fill_with_images(workspace, "my images", 150);
  const Outcome made = run_in(workspace, {"init", "my images/"});
  CHECK_THAT(made.output,
             ContainsSubstring("image_folder, 300 training samples of 2 classes (bright, dark)") &&
                 ContainsSubstring("trainer --config 'my images.yaml'"));
  const std::string recipe = workspace.read("my images.yaml");
  CHECK_THAT(recipe, ContainsSubstring("train: my images\n") && ContainsSubstring("out_features: 2") &&
                         ContainsSubstring("val_fraction: 0.2"));
  run_in(workspace, {"--config", "my images.yaml", "training.max_duration=3ep", "run.output_dir=run"});
  const Outcome found = run_in(workspace, {"predict", "--config", "my images.yaml", "run.output_dir=run",
                                           "my images/dark/101.png", "my images/bright/101.png"});
  const size_t dark = found.output.find("\"name\":\"dark\""),
               bright = found.output.find("\"name\":\"bright\"");
  CHECK(dark < bright);
  CHECK(bright != std::string::npos);

  const Outcome again = run_in(workspace, {"init", "my images"}, 64);
  CHECK_THAT(again.errors, ContainsSubstring("my images.yaml: the file exists already"));
  CHECK(workspace.read("my images.yaml") == recipe);
}

TEST_CASE("init finds a folder for validation, and a record file") {
  const Workspace workspace;
  fill_with_images(workspace, "set/train", 20);
  fill_with_images(workspace, "set/valid", 5);
  run_in(workspace, {"init", "set"});
  std::filesystem::create_directory(workspace.path() / "recipes");
  run_in(workspace, {"init", "set/", "--output", "recipes/set.yaml"});
  CHECK_THAT(workspace.read("recipes/set.yaml"), ContainsSubstring("train: ../set/train\n"));
  run_in(workspace, {"--config", "recipes/set.yaml", "training.max_duration=2ba", "run.output_dir=run"});
  CHECK_THAT(workspace.read("set.yaml"),
             ContainsSubstring("train: set/train\n") && ContainsSubstring("val: set/valid\n"));
  run_in(workspace, {"data", "pack", "--config", "set.yaml", "--out", "all.rec"});
  run_in(workspace, {"init", "all.rec", "-o", "packed.yaml"});
  CHECK_THAT(workspace.read("packed.yaml"),
             ContainsSubstring("format: record\n") && ContainsSubstring("train: all.rec\n"));
  run_in(workspace, {"--config", "packed.yaml", "training.max_duration=2ba"});
}

TEST_CASE("init says what it expected where there is nothing that it knows") {
  const Workspace workspace;
  workspace.write("notes/a/b.txt", "text");
  workspace.write("notes.txt", "text");
  CHECK_THAT(
      run_in(workspace, {"init", "notes"}, 65).errors,
      ContainsSubstring("notes: expected a folder of .jpg, .jpeg, .png, .webp or .bmp files for each class"));
  CHECK_THAT(run_in(workspace, {"init", "nowhere"}, 65).errors,
             ContainsSubstring("nowhere: there is no such file or folder"));
  CHECK_THAT(run_in(workspace, {"init", "notes.txt"}, 65).errors, ContainsSubstring("notes.txt: "));
  CHECK_THAT(run_in(workspace, {"init"}, 64).errors, ContainsSubstring("path is required"));
}

}  // namespace trainer
