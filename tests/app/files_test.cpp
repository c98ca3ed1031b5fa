// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>
#include <utility>
#include "tests/catch.h"

#include "tests/app/command.h"
#include "tests/app/images.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// A run that was stopped half way, in `run`.
class Stopped {
 public:
  Stopped() {
    workspace.write("small.yaml", kSmallRecipe);
    workspace.write("precious", "mine");
    REQUIRE(shell("train -c small.yaml " + kRun + " training.max_duration=4ba").code == 0);
  }
  /// A command that waits for a pipe is ended, with 124.
  Outcome shell(const std::string& words) const {
    return run_shell("timeout 60 \"$TRAINER\" " + words, workspace.path());
  }
  Outcome resume() const {
    return shell("train -c small.yaml " + kRun +
                 " training.max_duration=6ba 'run.allow_changes=[training.max_duration]'");
  }
  fs::path checkpoint() const { return *fs::directory_iterator(workspace.path() / "run/checkpoints"); }
  std::string inside(const fs::path& file) const {
    return file.lexically_relative(workspace.path()).string();
  }

  static inline const std::string kRun = "run.output_dir=run checkpoint.interval=4ba";
  Workspace workspace;
};

/// While it exists, it replaces a file by something else.
class Replaced {
 public:
  template <class Make>
  Replaced(fs::path file, const Make& make) : file_(std::move(file)), aside_(file_.string() + ".aside") {
    if (fs::exists(file_)) fs::rename(file_, aside_);
    make(file_);
  }
  ~Replaced() {
    fs::remove(file_);
    if (fs::exists(aside_)) fs::rename(aside_, file_);
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  fs::path file_, aside_;
};

void make_pipe(const fs::path& path) {
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
}

/// Whether any file below a folder contains a text.
bool is_below(const fs::path& folder, const std::string& text) {
  return run_shell("grep -raqF '" + text + "' .", folder).code == 0;
}

}  // namespace

TEST_CASE("files of a run: a pipe in the place of any of them is named, not waited for") {
  const Stopped stopped;
  const fs::path run = stopped.workspace.path() / "run";
  for (const char* name : {"identity.json", "status.json", "summary.json", "metrics.jsonl", "lock"}) {
    INFO(name);
    const Replaced replaced(run / name, make_pipe);
    const Outcome inspected = stopped.shell("inspect run");
    CHECK(inspected.code == 65);
    CHECK_THAT(inspected.errors,
               ContainsSubstring(std::string(name) + ": expected a regular file, found a pipe"));
    const bool is_replaced = std::string(name) == "status.json" || std::string(name) == "summary.json";
    if (is_replaced) continue;  // by a run that continues
    const Outcome resumed = stopped.resume();
    CHECK(resumed.code == 65);
    CHECK_THAT(resumed.errors,
               ContainsSubstring("run/" + std::string(name) + ": expected a regular file, found a pipe"));
  }
  for (const char* name : {"manifest.txt", "model.safetensors", "state.json"}) {
    INFO(name);
    const Replaced replaced(stopped.checkpoint() / name, make_pipe);
    const Outcome inspected = stopped.shell("inspect run");
    CHECK(inspected.code == 65);
    CHECK_THAT(inspected.errors,
               ContainsSubstring(std::string(name) + ": expected a regular file, found a pipe"));
    const Outcome evaluated =
        stopped.shell("eval -c small.yaml run.resume=" + stopped.inside(stopped.checkpoint()));
    CHECK(evaluated.code == 65);
    CHECK(stopped.resume().code == 65);
  }
  CHECK(stopped.resume().code == 0);
}

TEST_CASE("files of a run: what a link in their place names is neither written nor read") {
  const Stopped stopped;
  const fs::path run = stopped.workspace.path() / "run";
  const auto link = [](const fs::path& file) { fs::create_symlink("../precious", file); };
  for (const char* name : {"log.txt", "metrics.jsonl", "lock", "bad_samples.txt"}) {
    INFO(name);
    const Replaced replaced(run / name, link);
    const Outcome resumed = stopped.resume();
    CHECK(resumed.code == 65);
    CHECK_THAT(resumed.errors, ContainsSubstring("found a symbolic link; names in a run's directory"));
    CHECK(stopped.workspace.read("precious") == "mine");
  }
  {
    const Replaced replaced(run / "report.html", link);
    const Outcome reported = stopped.shell("report run");
    CHECK(reported.code == 65);
    CHECK_THAT(reported.errors,
               ContainsSubstring("run/report.html: expected a regular file, found a symbolic link"));
    CHECK(stopped.workspace.read("precious") == "mine");
    CHECK(stopped.shell("report run -o run/report.html").code == 0);  // the user's own words
    CHECK(stopped.workspace.read("precious") != "mine");
  }
  // The directory itself may be a link.
  fs::create_directory_symlink("run", stopped.workspace.path() / "link");
  CHECK(stopped.shell("inspect link").code == 0);
  CHECK(stopped.shell("report link").code == 0);
  CHECK(stopped.resume().code == 0);
}

TEST_CASE("a device as tokenizer is named") {
  const Workspace workspace;
  workspace.write("text.txt", "some text, again and again");
  workspace.write("r.yaml", R"(version: 1
model: {input: [4], input_kind: tokens, layers: [embedding: {vocab_size: 256, features: 8}, linear: 256]}
data: {format: text, train: text.txt, tokenizer: /dev/zero}
training: {global_batch_size: 2, max_duration: 1ba}
)");
  const std::string limit = kIsSanitized ? "" : "ulimit -v 4000000; ";  // sanitizers map far more
  const Outcome outcome =
      run_shell(limit + "timeout 60 \"$TRAINER\" -c r.yaml device.type=cpu", workspace.path());
  INFO(outcome.errors);
  CHECK(outcome.code == 65);
  CHECK_THAT(outcome.errors, ContainsSubstring("/dev/zero: expected a regular file, found a device"));
}

TEST_CASE("a value from the environment stays out of a run's files, and another one is refused") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const std::string words =
      "\"$TRAINER\" -c small.yaml run.output_dir=run training.max_duration=2ba "
      "'optimizer.weight_decay=${env:RATE}' "
      "'loss.label_smoothing=${env:SMOOTH}' ";
  const std::string first = "SMOOTH=0.51234567 ", decay = "RATE=0.000345678 ";
  const Outcome trained = run_shell(first + decay + words, workspace.path());
  INFO(trained.errors);
  REQUIRE(trained.code == 0);
  CHECK_FALSE(is_below(workspace.path() / "run", "0.000345678"));
  CHECK_FALSE(is_below(workspace.path() / "run", "0.51234567"));
  CHECK_THAT(workspace.read("run/recipe.yaml"), ContainsSubstring("weight_decay: ${env:RATE}"));
  CHECK_THAT(run_shell(first + decay + words, workspace.path()).errors,
             ContainsSubstring("this run is finished"));
  const Outcome other = run_shell(first + "RATE=0.000654321 " + words, workspace.path());
  CHECK(other.code == 78);
  CHECK_THAT(other.errors, ContainsSubstring("optimizer.weight_decay, which an environment variable gives") &&
                               !ContainsSubstring("0.000654321") && !ContainsSubstring("0.000345678"));
  // Neither command needs the variables.
  CHECK_THAT(run_shell("\"$TRAINER\" runs compare run run --all", workspace.path()).output,
             ContainsSubstring("${env:RATE}"));
}

TEST_CASE("a path of data from the environment may change, its samples may not") {
  const Workspace workspace;
  fill_with_images(workspace, "a/train", 20);
  fill_with_images(workspace, "a/val", 5);
  workspace.write("images.yaml", kImageRecipe);
  fs::copy(workspace.path() / "a", workspace.path() / "b", fs::copy_options::recursive);
  fill_with_images(workspace, "c/train", 21);
  fill_with_images(workspace, "c/val", 5);
  const auto train = [&](const std::string& folder, const std::string& steps) {
    return run_shell("WHERE=" + folder + " \"$TRAINER\" -c images.yaml 'data.train=${env:WHERE}/train' " +
                         "'data.val=${env:WHERE}/val' 'run.allow_changes=[training.max_duration]' " +
                         "training.max_duration=" + steps,
                     workspace.path());
  };
  const Outcome first = train("a", "2ba");
  INFO(first.errors);
  REQUIRE(first.code == 0);
  CHECK_THAT(workspace.read("run/recipe.yaml"), ContainsSubstring("/${env:WHERE}/train"));
  CHECK(train("b", "4ba").code == 0);
  const Outcome other = train("c", "6ba");
  CHECK(other.code == 78);
  CHECK_THAT(other.errors, ContainsSubstring("the training samples are not those of"));
  fs::remove(workspace.path() / "b/val/dark/100.png");
  CHECK_THAT(train("b", "6ba").errors,
             ContainsSubstring("data.val: the validation samples are not those of"));
}

TEST_CASE("labels and weights of samples may move with an environment variable, but not change") {
  const Workspace workspace;
  fill_with_images(workspace, "train", 20);
  workspace.write("images.yaml", kImageRecipe);
  const auto fill = [&](const std::string& folder, const std::string& first_label, const char* first_weight) {
    std::string labels = "file,label\n", weights = "file,weight\n";
    for (const char* name : {"bright", "dark"}) {
      for (int i = 100; i < 120; ++i) {
        const std::string file = name + ("/" + std::to_string(i)) + ".png,";
        const bool is_first = i == 100 && name == std::string("bright");
        labels += file + (is_first ? first_label : name) + "\n";
        weights += file + (is_first ? first_weight : "1") + "\n";
      }
    }
    fs::create_directories(workspace.path() / folder);
    workspace.write(folder + "/labels.csv", labels);
    workspace.write(folder + "/weights.csv", weights);
  };
  fill("a", "bright", "2");
  fill("b", "bright", "2");
  fill("labels", "dark", "2");
  fill("weights", "bright", "3");
  const auto train = [&](const std::string& folder, const std::string& steps) {
    return run_shell("WHERE=" + folder +
                         " \"$TRAINER\" -c images.yaml 'data.labels=${env:WHERE}/labels.csv' " +
                         "'data.sample_weights=${env:WHERE}/weights.csv' data.val=null " +
                         "'run.allow_changes=[training.max_duration]' training.max_duration=" + steps,
                     workspace.path());
  };
  const Outcome first = train("a", "2ba");
  INFO(first.errors);
  REQUIRE(first.code == 0);
  const Outcome moved = train("b", "4ba");
  INFO(moved.errors);
  CHECK(moved.code == 0);
  CHECK_THAT(moved.errors + moved.output, ContainsSubstring("resuming after step 2"));
  const Outcome labels = train("labels", "6ba"), weights = train("weights", "6ba");
  CHECK(labels.code == 78);
  CHECK_THAT(labels.errors, ContainsSubstring("other labels"));
  CHECK(weights.code == 78);
  CHECK_THAT(weights.errors, ContainsSubstring("other weights"));
}

TEST_CASE("names of images are shown on one line, whatever they hold") {
  const Workspace workspace;
  fill_with_images(workspace, "train", 20);
  fill_with_images(workspace, "val", 5);
  workspace.write("images.yaml", kImageRecipe);
  workspace.write("train/dark/a\nerror: forged \x1b[2J\xc2\x9b.png", "no image");
  fs::create_symlink("circle.png", workspace.path() / "train/bright/circle.png");
  fs::create_symlink("circle", workspace.path() / "train/circle");
  const Outcome outcome = run_trainer(
      {"-c", "images.yaml", "data.error_budget=10", "data.drop_last=false", "training.max_duration=1ep"},
      workspace.path());
  INFO(outcome.errors);
  CHECK(outcome.code == 0);
  const std::string name = "a\\nerror: forged \\x1b[2J\\u009b.png: ";
  CHECK_THAT(outcome.errors, ContainsSubstring(name));
  CHECK_THAT(outcome.errors,
             ContainsSubstring("circle.png: cannot be read: Too many levels of symbolic links"));
  CHECK_THAT(workspace.read("run/log.txt"), ContainsSubstring(name));
  const std::vector<std::string> bad = lines_of(workspace.read("run/bad_samples.txt"));
  REQUIRE(bad.size() == 2);
  CHECK_THAT(bad[1], ContainsSubstring(name));
}

TEST_CASE("init refuses a name that a recipe would expand") {
  const Workspace workspace;
  for (const char* name : {"${env:HOME}", "~"}) {
    INFO(name);
    fill_with_images(workspace, name, 2);
    const Outcome outcome = run_trainer({"init", std::string("./") + name, "-o", "r.yaml"}, workspace.path());
    CHECK(outcome.code == 64);
    CHECK_THAT(outcome.errors, ContainsSubstring("a recipe gives"));
    CHECK_FALSE(fs::exists(workspace.path() / "r.yaml"));
  }
}

}  // namespace trainer
