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

/// `count` images of both classes beside each other, and for each a row of a table: file, class.
std::string fill_flat(const Workspace& workspace, const std::string& folder, int count,
                      const std::string& separator = ",") {
  std::filesystem::create_directories(workspace.path() / folder);
  std::string rows;
  for (const std::string name : {"bright", "dark"}) {
    for (int i = 0; i < count; ++i) {
      const std::string file = name + std::to_string(i) + ".png";
      workspace.write(folder + "/" + file, image(name == "dark"));
      rows += file + separator + name + "\n";
    }
  }
  return rows;
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
  CHECK_THAT(run_in(workspace,
                    {"predict", "--config", "my images.yaml", "run.output_dir=run", "--images", "out",
                     "my images/dark/101.png"},
                    64)
                 .errors,
             ContainsSubstring("masks of a class for each pixel, and classification has neither"));
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
  CHECK_THAT(run_in(workspace, {"init", "notes"}, 65).errors,
             ContainsSubstring("notes: expected a folder of .jpg, .jpeg, .png, .webp"));
  CHECK_THAT(run_in(workspace, {"init", "nowhere"}, 65).errors,
             ContainsSubstring("nowhere: there is no such file or folder"));
  CHECK_THAT(run_in(workspace, {"init", "notes.txt"}, 65).errors, ContainsSubstring("notes.txt: "));
  CHECK_THAT(run_in(workspace, {"init"}, 64).errors, ContainsSubstring("path is required"));
}

TEST_CASE("init reads tables of labels and images alone, and each recipe trains as it stands") {
  const Workspace workspace;
  std::string recipe;
  const auto check = [&](const std::string& set, const std::string& found) {
    const Outcome made = run_in(workspace, {"init", set});
    CHECK_THAT(made.output, ContainsSubstring(set + ": image_folder, " + found));
    recipe = workspace.read(set + ".yaml");
    run_in(workspace, {"--config", set + ".yaml", "training.max_duration=2ep"});
  };
  const std::string rows = fill_flat(workspace, "named", 12);
  workspace.write("named/labels.csv", "filename,class\n" + rows);
  workspace.write("named/notes.odt", "");
  check("named", "24 training samples of 2 classes by labels.csv (bright, dark)");
  CHECK_THAT(recipe, ContainsSubstring("  train: named\n  labels: labels.csv\n") &&
                         ContainsSubstring("validation: {metrics: [top1, macro_f1]}\n"));
  CHECK_THAT(run_in(workspace, {"data", "stats", "--config", "named.yaml"}).output,
             ContainsSubstring("1 skipped: 1 .odt"));

  workspace.write("other/annotations.csv", fill_flat(workspace, "other/images", 12, ";"));
  check("other", "24 training samples of 2 classes by annotations.csv (bright, dark)");

  fill_flat(workspace, "sets", 4);
  std::string sets = "file,bright,dark\n";
  for (int i = 0; i < 4; ++i)
    sets += "bright" + std::to_string(i) + ".png,1,0\ndark" + std::to_string(i) + ".png,0,1\n";
  workspace.write("sets/labels.csv", sets);
  check("sets", "8 training samples of 2 classes by labels.csv (bright, dark)");
  CHECK_THAT(recipe,
             ContainsSubstring("loss: {name: binary_cross_entropy}\nvalidation: {metrics: [micro_f1,"));

  for (const char* split : {"both/train", "both/val"})
    workspace.write(std::string(split) + "/labels.csv", fill_flat(workspace, split, 12));
  check("both", "24 training samples of 2 classes by labels.csv");
  CHECK_THAT(recipe, ContainsSubstring("  train: both/train\n  labels: labels.csv\n  val: both/val\n"));

  fill_flat(workspace, "flat", 8);
  check("flat", "16 training samples without labels: the recipe is of an autoencoder");
  CHECK_THAT(recipe, ContainsSubstring("loss: {name: mse}\nvalidation: {metrics: []}\n"));
}

TEST_CASE("init holds tables of labels to the same: two classes, ten images of each, a usable column") {
  const Workspace workspace;
  workspace.write("few/t.csv", fill_flat(workspace, "few", 9));
  CHECK_THAT(run_in(workspace, {"init", "few"}).output,
             ContainsSubstring("classes of fewer than 10 images that can be read: bright (9), dark (9)\n"));
  fill_flat(workspace, "one", 1);
  workspace.write("one/t.csv", "bright0.png,a\ndark0.png,a\n");
  CHECK_THAT(run_in(workspace, {"init", "one"}, 65).errors,
             ContainsSubstring("one/t.csv: expected at least two classes, found one; name the class"));
  fill_flat(workspace, "bad", 1);
  workspace.write("bad/t.csv", "name,sex,age\nbright0.png,f,3\n");
  CHECK_THAT(run_in(workspace, {"init", "bad"}, 65).errors,
             ContainsSubstring("bad/t.csv:1: expected a column of the images' files and one of labels") &&
                 ContainsSubstring("the columns are 'name', 'sex', 'age'"));
  // Several tables, or one beside folders of classes, are no labels.
  workspace.write("two/a.csv", "");
  workspace.write("two/b.csv", fill_flat(workspace, "two", 1));
  CHECK_THAT(run_in(workspace, {"init", "two"}).output, ContainsSubstring("without labels"));
  fill_with_images(workspace, "folders", 1);
  workspace.write("folders/about.csv", "a,b\n");
  CHECK_THAT(run_in(workspace, {"init", "folders"}).output,
             ContainsSubstring("2 training samples of 2 classes") &&
                 ContainsSubstring("about.csv is not used: folders/about.csv:1: expected a column"));
  // A table that names the images decides, whatever folders they are in.
  workspace.write("folders/about.csv", "name,class\nbright/100.png,x\ndark/100.png,y\n");
  CHECK_THAT(run_in(workspace, {"init", "folders", "-o", "table.yaml"}).output,
             ContainsSubstring("2 training samples of 2 classes by about.csv (x, y)"));
}

TEST_CASE("init stops at one class and names classes of a few images") {
  const Workspace workspace;
  fill_with_images(workspace, "set", 10);
  CHECK(run_in(workspace, {"init", "set"}).output.find("fewer than") == std::string::npos);
  std::filesystem::remove(workspace.path() / "set/dark/100.png");
  CHECK_THAT(run_in(workspace, {"init", "set", "-o", "few.yaml"}).output,
             ContainsSubstring("classes of fewer than 10 images that can be read: dark (9)\n"));
  std::filesystem::remove_all(workspace.path() / "set/dark");
  CHECK_THAT(run_in(workspace, {"init", "set", "-o", "one.yaml"}, 65).errors,
             ContainsSubstring("set: expected at least two classes, found one"));
  CHECK(!std::filesystem::exists(workspace.path() / "one.yaml"));
}

TEST_CASE("init writes a recipe with a named network and its weights, whose head it replaces") {
  const Workspace workspace;
  fill_with_images(workspace, "set", 20);
  workspace.write("net.yaml", R"(input: [1, 6, 6]
layers:
  - conv2d: {name: conv, out_channels: 3, kernel_size: 3}
  - flatten
  - linear: {name: fc, out_features: 9}
)");
  workspace.write("base.yaml",
                  "version: 1\nmodel: net.yaml\ndata: {format: synthetic}\nrun: {output_dir: base}\n"
                  "training: {max_duration: 1ba, global_batch_size: 4}\n");
  run_in(workspace, {"base.yaml"});
  std::filesystem::create_directory(workspace.path() / "recipes");
  run_in(workspace, {"init", "set", "--network", "net.yaml", "--weights", "base", "-o", "recipes/set.yaml"});
  CHECK_THAT(
      workspace.read("recipes/set.yaml"),
      ContainsSubstring("model:\n  network: ../net.yaml\n  num_classes: 2\n  initial_weights: ../base\n") &&
          ContainsSubstring("resize: 6\n    - center_crop: 6\n"));
  const Outcome trained =
      run_in(workspace, {"recipes/set.yaml", "training.max_duration=1ep", "run.output_dir=run"});
  CHECK_THAT(trained.output + trained.errors,
             ContainsSubstring("loaded 2 of 4 tensors") &&
                 ContainsSubstring("re-initialised (model.num_classes) 2 tensors: fc.weight, fc.bias"));
  run_in(workspace, {"predict", "-c", "recipes/set.yaml", "run.output_dir=run", "set/dark/101.png"});

  workspace.write("other.yaml",
                  "input: [1, 6, 6]\nlayers: [flatten, {linear: {name: fc, out_features: 9}}]\n");
  const Outcome other =
      run_in(workspace, {"init", "set", "--network", "other.yaml", "--weights", "base", "-o", "o.yaml"}, 65);
  CHECK_THAT(other.errors, ContainsSubstring("does not fit the network") &&
                               ContainsSubstring("the network has no 'conv.weight'") &&
                               !ContainsSubstring("fc.weight"));
  CHECK_THAT(run_in(workspace, {"init", "set", "--network", "resnt18", "-o", "o.yaml"}, 78).errors,
             ContainsSubstring("no network 'resnt18' comes with the program; did you mean 'resnet18'?"));
  CHECK_THAT(run_in(workspace, {"init", "set", "--network", "gpt2", "-o", "o.yaml"}, 78).errors,
             ContainsSubstring("weight is that of 'transformer.wte'"));
  CHECK_THAT(run_in(workspace, {"init", "set", "--network", "lenet", "--weights", "none", "-o", "o.yaml"}, 65)
                 .errors,
             ContainsSubstring("no such file"));
  run_in(workspace, {"init", "set", "--weights", "base", "-o", "o.yaml"}, 64);
  CHECK(!std::filesystem::exists(workspace.path() / "o.yaml"));
  run_in(workspace, {"init", "set", "--network", "resnet18", "-o", "o.yaml"});
  CHECK_THAT(run_in(workspace, {"plan", "o.yaml"}).output,
             ContainsSubstring("[64, 2]") || ContainsSubstring(", 2]"));
}

TEST_CASE("init, data stats and a run count the files that they do not read") {
  const Workspace workspace;
  fill_with_images(workspace, "set", 20);
  for (const char* name :
       {"set/dark/a.xcf", "set/dark/deeper/b.XCF", "set/bright/notes.odt", "set/Thumbs.db"}) {
    std::filesystem::create_directories((workspace.path() / name).parent_path());
    workspace.write(name, "not an image");
  }
  const std::string line = "3 skipped: 2 .xcf, 1 .odt";
  CHECK_THAT(run_in(workspace, {"init", "set"}).output, ContainsSubstring(line));
  CHECK_THAT(run_in(workspace, {"data", "stats", "--config", "set.yaml"}).output, ContainsSubstring(line));
  CHECK_THAT(run_in(workspace, {"data", "stats", "--config", "set.yaml", "--json"}).output,
             ContainsSubstring("\".xcf\": 2"));
  const Outcome trained = run_in(workspace, {"--config", "set.yaml", "training.max_duration=1ba"});
  const std::string all = trained.output + trained.errors;
  CHECK_THAT(all, ContainsSubstring("data.train: " + line));
  CHECK(all.find(line) == all.rfind(line));  // training and validation have one folder
  std::filesystem::create_directories(workspace.path() / "none/dark");
  workspace.write("none/dark/a.xcf", "not an image");
  CHECK_THAT(run_in(workspace, {"init", "none"}, 65).errors,
             ContainsSubstring("found none (1 skipped: 1 .xcf)"));
}

}  // namespace trainer
