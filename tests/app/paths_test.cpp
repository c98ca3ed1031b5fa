// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// In `recipes/`, over packed samples in `data/`.
constexpr const char* kPacked = R"(version: 1
run: {name: packed, seed: 3}
model: {input: [1, 12, 12], layers: [flatten, linear: 5]}
data: {format: record, train: ../data/train.rec, val: ../data/val.rec}
training: {max_duration: 4ba, global_batch_size: 64}
)";

void make_project(const Workspace& workspace) {
  workspace.write("small.yaml", kSmallRecipe);
  workspace.write("recipes/packed.yaml", kPacked);
  fs::create_directories(workspace.path() / "data");
  for (const std::string split : {"train", "val"}) {
    const Outcome packed = run_trainer(
        {"data", "pack", "--config", "small.yaml", "--split", split, "--out", "data/" + split + ".rec"},
        workspace.path());
    INFO(packed.errors);
    REQUIRE(packed.code == 0);
  }
}

Outcome run_at(const Workspace& workspace, const std::string& folder, const std::vector<std::string>& words) {
  return run_trainer(words, workspace.path() / folder);
}

}  // namespace

TEST_CASE("a recipe finds its data from every working directory, and is the same run there") {
  const Workspace workspace;
  make_project(workspace);
  const std::string directory = "run.output_dir=" + (workspace.path() / "run").string();
  const Outcome first = run_at(workspace, ".", {"--config", "recipes/packed.yaml", directory});
  INFO(first.errors);
  REQUIRE(first.code == 0);
  const Outcome second = run_at(workspace, "recipes", {"--config", "packed.yaml", directory});
  CHECK(second.code == 0);
  CHECK_THAT(second.errors, ContainsSubstring("\nthis run is finished"));
  const std::string file = (workspace.path() / "recipes/packed.yaml").string();
  CHECK_THAT(run_at(workspace, "data", {"--config", file, directory}).errors,
             ContainsSubstring("\nthis run is finished"));

  // The default output directories are relative to the working directory.
  REQUIRE(run_at(workspace, "data", {"--config", "../recipes/packed.yaml"}).code == 0);
  CHECK(fs::is_directory(workspace.path() / "data/runs"));
  CHECK_FALSE(fs::exists(workspace.path() / "recipes/runs"));
}

TEST_CASE("the recipe that a run keeps trains the same from where it lies") {
  const Workspace workspace;
  make_project(workspace);
  REQUIRE(run_at(workspace, "data",
                 {"--config", "../recipes/packed.yaml", "data.val=val.rec", "run.output_dir=../a"})
              .code == 0);
  const Outcome again = run_at(workspace, "a", {"--config", "recipe.yaml", "run.output_dir=../b"});
  INFO(again.errors);
  CHECK(again.code == 0);
  CHECK(workspace.read("a/model.safetensors") == workspace.read("b/model.safetensors"));
  const std::string real = fs::canonical(workspace.path()).string();
  CHECK_THAT(workspace.read("a/recipe.yaml"), ContainsSubstring("train: " + real + "/data/train.rec\n") &&
                                                  ContainsSubstring("val: " + real + "/data/val.rec\n"));
}

TEST_CASE(
    "on the command line a path is relative to the working directory, and a tilde is the home directory") {
  const Workspace workspace;
  make_project(workspace);
  const auto stats = [&](const std::string& override) {
    return run_shell("cd data && HOME=" + workspace.path().string() +
                         " \"$TRAINER\" data stats --config ../recipes/packed.yaml " + override,
                     workspace.path());
  };
  CHECK(stats("data.train=train.rec").code == 0);
  CHECK(stats("data.train='~/data/train.rec'").code == 0);
  const Outcome wrong = stats("data.train=../data/none.rec");
  CHECK(wrong.code == 78);
  CHECK_THAT(
      wrong.errors,
      ContainsSubstring("command line:1:6: error: data.train: there is no file ../data/none.rec, relative "
                        "to the working directory " +
                        fs::canonical(workspace.path()).string() + "/data; correct the path"));
}

TEST_CASE("missing files are named with the folder that they were looked for in") {
  const Workspace workspace;
  workspace.write("recipes/packed.yaml", kPacked);
  const std::string folder =
      ", relative to the recipe's folder " + fs::canonical(workspace.path()).string() + "/recipes";
  const std::vector<std::string> recipe = {"--config", "recipes/packed.yaml"};
  CHECK_THAT(
      run_at(workspace, ".", recipe).errors,
      ContainsSubstring("data.train: there is no file ../data/train.rec" + folder + "; correct the path") &&
          ContainsSubstring("data.val: there is no file ../data/val.rec" + folder));
  CHECK_THAT(run_at(workspace, ".", {"plan", "--config", "recipes/packed.yaml"}).errors,
             ContainsSubstring("warning: there is no file ../data/train.rec" + folder));
  workspace.write("recipes/w.yaml", std::string(kSmallRecipe) + "device: {model: x.json, type: cuda}\n");
  CHECK_THAT(run_at(workspace, ".", {"plan", "--config", "recipes/w.yaml"}).errors,
             ContainsSubstring("cannot read the description x.json" + folder));
  std::string text = kSmallRecipe;
  text.replace(text.find("model:\n"), 7, "model:\n  initial_weights: base\n");
  workspace.write("recipes/w.yaml", text);
  const Outcome weights = run_at(workspace, ".", {"--config", "recipes/w.yaml", "run.output_dir=a"});
  CHECK(weights.code == 65);
  CHECK_THAT(weights.errors,
             ContainsSubstring("base" + folder + ": no such file or directory to load weights from"));
  workspace.write("recipes/r.yaml", std::string(kSmallRecipe) + "# resumes\n");
  const Outcome resume =
      run_at(workspace, ".", {"--config", "recipes/r.yaml", "run.output_dir=b", "run.resume=base"});
  CHECK(resume.code == 65);
  CHECK_THAT(resume.errors, ContainsSubstring("base, relative to the working directory "));
}

TEST_CASE("a shipped network is used by its name from anywhere") {
  const Workspace workspace;
  workspace.write("r.yaml", "version: 1\nmodel: {network: mlp_10}\ndata: {format: synthetic}\n");
  const Outcome plan = run_at(workspace, ".", {"plan", "--config", "r.yaml"});
  INFO(plan.errors);
  CHECK(plan.code == 0);
  CHECK(run_at(workspace, ".", {"plan", "--config", "r.yaml", "model.network=lenet"}).code == 0);
  const Outcome wrong = run_at(workspace, ".", {"plan", "--config", "r.yaml", "model.network=lenett"});
  CHECK(wrong.code == 78);
  CHECK_THAT(wrong.errors,
             ContainsSubstring("no network 'lenett' comes with the program; did you mean 'lenet'?"));
}

TEST_CASE("a recipe from a pipe has its paths relative to the working directory") {
  const Workspace workspace;
  make_project(workspace);
  const Outcome piped =
      run_shell("cd data && cat ../recipes/packed.yaml | \"$TRAINER\" data stats --config /dev/stdin",
                workspace.path());
  INFO(piped.errors);
  CHECK(piped.code == 0);
}

TEST_CASE("names cannot lead a run out of its directory, nor command a terminal") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const auto named = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"--config", "small.yaml", "training.max_duration=1ba"});
    const Outcome outcome = run_at(workspace, ".", overrides);
    CHECK(outcome.errors.find('\x1b') == std::string::npos);
    CHECK_THAT(outcome.errors, ContainsSubstring("expected a name that a directory's may contain"));
    return outcome.code;
  };
  const std::string outside = workspace.path().filename().string() + "_outside";
  for (const std::string& name :
       {"../../" + outside, std::string("a/b"), std::string(".."), std::string("."), std::string("/"),
        std::string("''"), std::string("\"\\e[31m\""), std::string("\"a\\nb\"")})
    CHECK(named({"run.name=" + name}) == 78);
  CHECK(named({"run.output_dir=runs/{data.train}", "data.train=../" + outside}) == 78);
  CHECK_FALSE(fs::exists(workspace.path() / "runs"));
  CHECK_FALSE(fs::exists(workspace.path().parent_path() / outside));
}

TEST_CASE("control characters of names reach neither the terminal nor the log") {
  const Workspace workspace;
  std::string text = kSmallRecipe;
  text.replace(text.find("name: fc2"), 9, "name: \"fc2\\e[31m\\x9b\"");
  workspace.write("small.yaml", text);
  const auto is_clean = [](const std::string& shown) {
    return shown.find_first_of("\x1b\x07") == std::string::npos &&
           shown.find("\xc2\x9b") == std::string::npos;
  };
  for (const char* line :
       {"plan --config small.yaml", "plan --config small.yaml --dump program",
        "train --config small.yaml run.output_dir=a optimizer.lr=1e30 optimizer.clip_norm=null",
        "train --config small.yaml run.output_dir=b", "inspect b/model.safetensors",
        "train --config $'\\e[31m.yaml'", "data stats --config small.yaml $'data.train=\\e[31m'",
        "predict --config small.yaml run.output_dir=b $'\\e[31m.png'"}) {
    INFO(line);
    const Outcome outcome = run_shell(
        "exec bash -c '\"$0\" " +
            [&] {
              std::string escaped;
              for (const char* c = line; *c != '\0'; ++c)
                escaped += *c == '\'' ? std::string("'\\''") : std::string(1, *c);
              return escaped;
            }() +
            "' \"$TRAINER\"",
        workspace.path());
    CHECK(is_clean(outcome.output));
    CHECK(is_clean(outcome.errors));
  }
  CHECK(is_clean(workspace.read("a/log.txt")));
  CHECK(is_clean(workspace.read("b/log.txt")));
}

}  // namespace trainer
