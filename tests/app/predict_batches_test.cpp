// SPDX-License-Identifier: Apache-2.0
// Batches and parts of `predict`, and paths that come through its standard input.
#include <nlohmann/json.hpp>

#include "tests/app/images.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Strings = std::vector<std::string>;

/// A trained network, and a folder of seven images.
class Trained {
 public:
  Trained() {
    workspace.write("r.yaml", kImageRecipe);
    fill_with_images(workspace, "train", 20);
    fill_with_images(workspace, "val", 5);
    for (int i = 0; i < 7; ++i) workspace.write("new/" + std::to_string(i) + ".png", image(i % 2 == 0));
    REQUIRE(run_trainer({"--config", "r.yaml"}, workspace.path()).code == 0);
  }

  std::string predict(Strings words) const {
    words.insert(words.begin(), {"predict", "run"});
    const Outcome outcome = run_trainer(words, workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome.output;
  }
  void refuse(Strings words, const std::string& message) const {
    words.insert(words.begin(), {"predict", "run"});
    const Outcome outcome = run_trainer(words, workspace.path());
    CHECK(outcome.code == 64);
    CHECK(outcome.output.empty());
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  }

  Workspace workspace;
};

}  // namespace

TEST_CASE("predict: parts give together what all images give, bit by bit") {
  const Trained trained;
  const std::string all = trained.predict({"new", "--all"});
  for (const int parts : {1, 2, 3, 7, 9}) {
    std::string joined;
    for (int part = 1; part <= parts; ++part) {
      const std::string number = std::to_string(part) + "/" + std::to_string(parts);
      joined += trained.predict({"new", "--all", "--part", number});
    }
    CHECK(joined == all);
  }
  const std::string split = trained.predict({"--split", "val"});
  CHECK(trained.predict({"--part", "1/2"}) + trained.predict({"--part", "2/2"}) == split);
  for (const char* part : {"3/2", "0/2", "1/0", "-1/2", "1", "1/", "/2", "1/2/3", "1.5/2", "x/y", ""})
    trained.refuse({"new", "--part", part}, "--part: expected I/N with I from 1 to N, as in 2/8, got");
}

TEST_CASE("predict: any number of images is computed at once, and the run's number is the default") {
  const Trained trained;
  const auto lines = lines_of(trained.predict({"new", "--all"}));
  for (const char* batch : {"1", "3", "7", "20"}) {
    const auto found = lines_of(trained.predict({"new", "--all", "--batch", batch}));
    REQUIRE(found.size() == lines.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const json ours = json::parse(found[i]), other = json::parse(lines[i]);
      CHECK(ours["file"] == other["file"]);
      CHECK(ours["probabilities"][0].get<double>() ==
            Approx(other["probabilities"][0].get<double>()).epsilon(1e-5));
    }
  }
  trained.refuse({"new", "--batch", "0"}, "--batch: expected a whole number from 1");
  trained.refuse({"new", "--batch", "many"}, "--batch");
}

TEST_CASE("predict: a program that keeps the pipe open gets each answer before it sends the next path") {
  const Trained trained;
  // The answers are read before the next line is written: without them the test would end at its time limit.
  const Outcome outcome = run_shell(
      "mkfifo in out; timeout 60 \"$TRAINER\" predict run --batch 4 - <in >out & "
      "exec 3>in 4<out; "
      "for file in new/0.png gone.png '' new/1.png; do echo \"$file\" >&3; read -r line <&4; echo \"$line\"; "
      "done; "
      "printf 'new/2.png\\nnew/3.png' >&3; exec 3>&-; cat <&4; wait $!",
      trained.workspace.path());
  CHECK(outcome.code == 65);
  CHECK_THAT(outcome.errors,
             ContainsSubstring("warning: gone.png: cannot be read: No such file or directory\n") &&
                 ContainsSubstring("error: 2 of 6 samples could not be read\n"));
  const auto lines = lines_of(outcome.output);
  REQUIRE(lines.size() == 6);
  const auto value = [&](size_t line, const char* key) { return json::parse(lines[line]).at(key); };
  CHECK(value(0, "file") == "new/0.png");
  CHECK(value(1, "file") == "gone.png");
  CHECK(value(1, "error") == "cannot be read: No such file or directory");
  CHECK(value(2, "sample") == 2);
  CHECK(value(3, "class") != value(0, "class"));
  CHECK(value(5, "file") == "new/3.png");
}

TEST_CASE("predict: paths through the standard input give what the same images give as words") {
  const Trained trained;
  for (const std::string options : {"--top 1", "--format csv", "--tta flip"}) {
    INFO(options);
    const std::string call = "\"$TRAINER\" predict run --batch 2 " + options;
    const Outcome given = run_shell(call + " new/*.png gone.png", trained.workspace.path());
    const Outcome sent =
        run_shell("printf '%s\\n' new/*.png gone.png | " + call + " -", trained.workspace.path());
    CHECK(given.code == 65);
    CHECK(sent.code == 65);
    CHECK(sent.output == given.output);
  }
  const Outcome nothing = run_shell("\"$TRAINER\" predict run - </dev/null", trained.workspace.path());
  CHECK(nothing.code == 0);
  CHECK(nothing.output.empty());
  CHECK(run_shell("\"$TRAINER\" predict run - <&-", trained.workspace.path()).code == 74);
  const Outcome stopped = run_shell(
      "mkfifo held; \"$TRAINER\" predict run - <held & exec 3>held; sleep 1; kill -TERM $!; wait $!",
      trained.workspace.path());
  CHECK(stopped.code == 75);
}

TEST_CASE("predict: what needs all images is refused for paths that come") {
  const Trained trained;
  trained.refuse({"-", "new"}, "other images cannot be named beside it");
  trained.refuse({"-", "--output", "x"}, "--output has to be left out");
  trained.refuse({"-", "--part", "1/2"}, "--part has no list to divide");
  trained.refuse({"-", "--errors-only"}, "--errors-only has no end");
  trained.refuse({"-", "--gallery", "x.html"}, "--gallery has no end");
  trained.refuse({"-", "--images", "x"}, "--images has no list");
  trained.refuse({"-", "--split", "val"}, "not both");
}

}  // namespace trainer
