// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/storage/safetensors.h"
#include "tests/app/images.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// An IDX file of images of one byte per pixel, or of labels.
std::string idx(const std::vector<uint32_t>& sizes, const std::string& payload) {
  std::string bytes = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 255u);
  }
  return bytes + payload;
}

constexpr uint32_t kSide = 8;
using Picture = std::string;

/// Bright above or below, with noise of its own: the class is in the picture.
Picture picture(int number, int label) {
  Picture pixels;
  uint32_t state = static_cast<uint32_t>(number) * 2654435761u + 12345u;
  for (uint32_t i = 0; i < kSide * kSide; ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t base = (i < kSide * kSide / 2) == (label == 0) ? 150u : 30u;
    pixels += static_cast<char>(base + (state >> 25) % 90u);
  }
  return pixels;
}

struct Sample {
  Picture pixels;
  int label;
};

/// Pictures of two classes in IDX files, and a recipe for them.
class Pictures {
 public:
  Pictures() {
    for (int i = 0; i < 60; ++i) train.push_back({picture(i, i % 2), i % 2});
    for (int i = 60; i < 90; ++i) val.push_back({picture(i, i % 2), i % 2});
  }
  void write() const {
    workspace.write("r.yaml", R"(version: 1
run: {name: r, seed: 2}
model: {input: [1, 8, 8], layers: [flatten, linear: 2]}
data: {format: idx, train: train, val: t10k}
training: {max_duration: 8ep, global_batch_size: 10}
optimizer: {name: sgd, lr: 0.1}
)");
    write_split("train", train);
    write_split("t10k", val);
  }
  Outcome run(const std::string& words, int code = 0) const {
    Outcome outcome = run_shell("\"$TRAINER\" " + words, workspace.path());
    INFO(words << ": " << outcome.errors);
    REQUIRE(outcome.code == code);
    return outcome;
  }
  json found(const std::string& more = "") const {
    return json::parse(run("data check --config r.yaml --json " + more).output);
  }

  Workspace workspace;
  std::vector<Sample> train, val;

 private:
  void write_split(const std::string& name, const std::vector<Sample>& samples) const {
    std::string pixels, labels;
    for (const Sample& sample : samples) pixels += sample.pixels, labels += static_cast<char>(sample.label);
    const auto count = static_cast<uint32_t>(samples.size());
    workspace.write(name + "-images-idx3-ubyte", idx({count, kSide, kSide}, pixels));
    workspace.write(name + "-labels-idx1-ubyte", idx({count}, labels));
  }
};

json sample(const std::string& split, int number) {
  return {{"split", split}, {"sample", std::to_string(number)}};
}

}  // namespace

TEST_CASE(
    "data check finds equal images, contradictory labels, near ones and single colours, and writes them") {
  Pictures pictures;
  pictures.write();
  for (const char* list :
       {"exact_duplicates", "contradictory_labels", "near_duplicates", "one_color", "unreadable"})
    CHECK(pictures.found().at(list).empty());
  pictures.train[7].pixels = pictures.train[5].pixels;  // of the same class
  pictures.train[12].pixels = pictures.val[3].pixels;   // of another one
  pictures.train[20].pixels = Picture(kSide * kSide, '7');
  pictures.val[9].pixels = pictures.train[30].pixels;
  for (char& pixel : pictures.val[9].pixels) pixel = static_cast<char>(static_cast<uint8_t>(pixel) + 1);
  pictures.write();
  const json report = pictures.found("--write x.txt");
  CHECK(report.at("train") == 60);
  CHECK(report.at("val") == 30);
  CHECK(report.at("exact_duplicates") == json({{{"samples", {sample("train", 5), sample("train", 7)}}},
                                               {{"samples", {sample("train", 12), sample("val", 3)}}}}));
  CHECK(report.at("contradictory_labels") == json({{{"samples", {sample("train", 12), sample("val", 3)}}}}));
  REQUIRE(report.at("near_duplicates").size() == 1);
  CHECK(report.at("near_duplicates")[0].at("samples") == json({sample("train", 30), sample("val", 9)}));
  CHECK(report.at("one_color") == json::array({sample("train", 20)}));
  CHECK(pictures.found("--distance 0 data.workers=3").at("exact_duplicates") ==
        report.at("exact_duplicates"));
  const std::string text = pictures.run("data check --config r.yaml").output;
  CHECK_THAT(text,
             ContainsSubstring(
                 "60 training and 30 validation samples\ngroups of equal images: 2\n  train 5 = train 7\n"));
  CHECK_THAT(text, ContainsSubstring("different labels: 1\n  train 12 (0) = val 3 (1)\n"));
  CHECK_THAT(text, ContainsSubstring("  train 30 ~ val 9, distance "));
  // Copies for validation stay; contradictions go altogether.
  std::set<std::string> lines;
  for (const std::string& line : lines_of(pictures.workspace.read("x.txt"))) {
    if (!line.starts_with('#')) lines.insert(line);
  }
  CHECK(lines == std::set<std::string>{"train 7", "train 12", "val 3", "train 30", "train 20"});
  const json rest = pictures.found("data.exclude=x.txt --write y.txt");
  CHECK(rest.at("train") == 56);
  CHECK(rest.at("val") == 29);
  for (const char* list :
       {"exact_duplicates", "contradictory_labels", "near_duplicates", "one_color", "unreadable"})
    CHECK(rest.at(list).empty());
  CHECK(pictures.workspace.read("y.txt") == pictures.workspace.read("x.txt"));
  // A fold's samples are all in the files of training, where the file names them.
  const std::string fold = "data.val=null 'data.fold={of: 3, index: 1}' ";
  CHECK(pictures.found(fold + "--write z.txt").at("exact_duplicates").size() == 1);
  CHECK(pictures.found(fold + "data.exclude=z.txt").at("exact_duplicates").empty());
  CHECK_THAT(pictures.run("data check --config r.yaml --id row", 64).errors,
             ContainsSubstring("--id names a column of a table"));
}

TEST_CASE(
    "a run without excluded samples is that of files without them, is planned so, and resumes exactly") {
  Pictures pictures;
  pictures.write();
  pictures.workspace.write("x.txt", "train 3\ntrain 40\nval 29\n");
  const std::string words = "train --config r.yaml data.exclude=x.txt checkpoint.interval=1ba ";
  pictures.run(words + "run.output_dir=whole");
  pictures.run(words + "run.output_dir=parts training.max_duration=8ep run.stop_after=17ba");
  pictures.run(words + "run.output_dir=parts");
  CHECK(pictures.workspace.read("parts/model.safetensors") ==
        pictures.workspace.read("whole/model.safetensors"));
  CHECK_THAT(pictures.run("plan --config r.yaml data.exclude=x.txt").output,
             ContainsSubstring("58 training samples"));
  Pictures without;
  without.train.erase(without.train.begin() + 40);
  without.train.erase(without.train.begin() + 3);
  without.val.pop_back();
  without.write();
  without.run("train --config r.yaml run.output_dir=whole");
  const SafetensorsFile expected(without.workspace.path() / "whole/model.safetensors"),
      trained(pictures.workspace.path() / "whole/model.safetensors");
  for (const char* name : {"1.weight", "1.bias"})
    CHECK(trained.read_floats(*trained.find(name)) == expected.read_floats(*expected.find(name)));
  // Other samples are another run.
  pictures.workspace.write("x.txt", "train 3\ntrain 41\nval 29\n");
  pictures.run("train --config r.yaml data.exclude=x.txt run.output_dir=paused run.stop_after=3ba");
  pictures.workspace.write("x.txt", "train 3\ntrain 42\nval 29\n");
  CHECK_THAT(pictures.run("train --config r.yaml data.exclude=x.txt run.output_dir=paused", 78).errors,
             ContainsSubstring("other excluded samples (data.exclude)"));
  pictures.workspace.write("x.txt", "train 3\ntrain 60\n");
  CHECK_THAT(
      pictures.run("train --config r.yaml data.exclude=x.txt run.output_dir=new", 65).errors,
      ContainsSubstring("x.txt:2: there is no sample '60' in data.train: expected a number from 0 to 59"));
}

TEST_CASE("suspects are samples with wrong labels, of the validation of one run or of several") {
  Pictures pictures;
  std::set<std::string> wrong;
  for (const int i : {4, 17, 33}) {
    pictures.train[static_cast<size_t>(i)].label ^= 1;
    wrong.insert(std::to_string(i));
  }
  pictures.write();
  const std::string folds =
      "train --config r.yaml data.val=null data.val_fraction=0.5 training.max_duration=20ep ";
  for (const char* seed : {"1", "2", "3", "4"})
    pictures.run(folds + "run.seed=" + seed + " run.output_dir=fold" + seed);
  const std::string runs = "--run fold1 --run fold2 --run fold3 --run fold4 ";
  const json report =
      json::parse(pictures.run("data check --json --suspects 3 --write x.txt " + runs).output);
  REQUIRE(report.at("suspects").size() == 3);
  std::set<std::string> found;
  double last = 0;
  for (const json& suspect : report.at("suspects")) {
    found.insert(suspect.at("sample").get<std::string>());
    CHECK(suspect.at("label") != suspect.at("predicted"));
    CHECK(suspect.at("probability").get<double>() >= last);
    last = suspect.at("probability");
    CHECK(suspect.at("probability").get<double>() + suspect.at("predicted_probability").get<double>() ==
          Approx(1));
    CHECK_THAT(pictures.workspace.read("x.txt"),
               ContainsSubstring("\ntrain " + suspect.at("sample").get<std::string>() + "\n"));
  }
  CHECK(found == wrong);
  // One run judges its own validation split alone, as `predict` does.
  const json one =
      json::parse(pictures.run("data check --json --suspects 1000 --run fold1").output).at("suspects");
  CHECK(one.size() == 30);
  std::vector<double> expected, given;
  for (const std::string& line : lines_of(pictures.run("predict fold1 --all").output)) {
    const json predicted = json::parse(line);
    expected.push_back(predicted.at("probabilities")[predicted.at("label").get<size_t>()].get<double>());
  }
  for (const json& suspect : one) given.push_back(suspect.at("probability"));
  std::ranges::sort(expected);
  REQUIRE(given.size() == expected.size());
  for (size_t i = 0; i < given.size(); ++i) CHECK(given[i] == Approx(expected[i]).margin(1e-6));
  const auto refused = [&](const std::string& words, int code, const std::string& message) {
    CHECK_THAT(pictures.run("data check " + words, code).errors, ContainsSubstring(message));
  };
  refused("", 64, "data check needs a recipe (--config FILE), or runs (--run DIRECTORY)");
  refused("--config r.yaml --suspects 3", 64,
          "--suspects needs networks: name trained runs with --run DIRECTORY");
  refused("--config r.yaml --run fold1", 64, "--run names networks for --suspects N");
  refused("--config r.yaml --suspects 3 --run nowhere", 64,
          "nowhere: expected a run's directory, found nothing");
  pictures.run("train --config r.yaml data.val=null run.output_dir=all");
  refused("--suspects 3 --run all", 78, "all: the run has no validation, so it trained on all samples");
  refused("--config r.yaml --distance 17", 64, "--distance");
  refused("--config r.yaml --write none/x.txt", 74, "none/x.txt");
}

}  // namespace trainer
