// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// Rows of an id, two numbers and a category; the class and the number follow from the numbers.
struct Person {
  int id;
  double height, weight;
  std::string city;
  std::string species = "";

  double size() const { return height + 2 * weight; }
  std::string row() const {
    return "p" + std::to_string(id) + "," + std::to_string(height) + "," + std::to_string(weight) + "," +
           city + "," + (species.empty() ? (size() > 150 ? "big" : "small") : species) + "," +
           std::to_string(size()) + "\n";
  }
};

class People {
 public:
  People() {
    uint32_t state = 12345;
    const auto draw = [&] {
      return static_cast<double>((state = state * 1664525u + 1013904223u) >> 8) / 167772.16;
    };
    for (int i = 0; i < 80; ++i) {
      const double height = draw(), weight = draw();
      all.push_back({i, height, weight, i % 3 == 0 ? "Rome" : "Oslo"});
    }
  }
  /// The first sixty for training, and the others for validation.
  void write() const {
    std::string train = kHeader, val = kHeader;
    for (size_t i = 0; i < all.size(); ++i) (i < 60 ? train : val) += all[i].row();
    workspace.write("train.csv", train);
    workspace.write("val.csv", val);
    for (const char* target : {"species", "size"})
      workspace.write(std::string(target) + ".yaml", recipe(target));
  }
  Outcome run(const std::string& words, int code = 0) const {
    Outcome outcome = run_shell("\"$TRAINER\" " + words, workspace.path());
    INFO(words << ": " << outcome.errors);
    REQUIRE(outcome.code == code);
    return outcome;
  }
  json found(const std::string& more) const { return json::parse(run("data check --json " + more).output); }

  Workspace workspace;
  std::vector<Person> all;

 private:
  static constexpr const char* kHeader = "id,height,weight,city,species,size\n";

  static std::string recipe(const std::string& target) {
    const bool is_number = target == "size";
    return R"(version: 1
run: {name: r, seed: 2}
model:
  input_kind: features
  input: [2]
  categories: 1
  layers:
    - embedding: {inputs: ["input:1"], vocab_size: 3, features: 1}
    - flatten: {name: flat}
    - concat: {inputs: [input, flat]}
    - linear: )" +
           std::string(is_number ? "1" : "2") + R"(
data:
  format: table
  train: train.csv
  val: val.csv
  table: {target: )" +
           target + ", ignore: [id, " + (is_number ? "species" : "size") + R"(]}
training: {max_duration: 60ep, global_batch_size: 20}
loss: {name: )" +
           (is_number ? "mse" : "cross_entropy") + "}\nvalidation: {metrics: [" +
           (is_number ? "mae" : "top1") + R"(]}
optimizer: {name: sgd, lr: 0.2}
checkpoint: {keep_best: none}
device: {type: cpu, threads: 1}
)";
  }
};

json sample(const std::string& split, const std::string& name) {
  return {{"split", split}, {"sample", name}};
}

std::set<std::string> excluded_in(const std::string& text) {
  std::set<std::string> lines;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with('#')) lines.insert(line);
  }
  return lines;
}

constexpr const char* kLists[] = {"exact_duplicates", "contradictory_labels", "constant_columns", "row_names",
                                  "predictive_columns"};

}  // namespace

TEST_CASE("data check finds equal rows and contradictory ones of a table, and data.exclude leaves them out") {
  People people;
  people.write();
  for (const char* list : kLists) CHECK(people.found("--config species.yaml").at(list).empty());
  const auto copy = [&](size_t from, size_t to) {
    const int id = people.all[to].id;
    people.all[to] = people.all[from];
    people.all[to].id = id;
  };
  copy(5, 7);
  copy(5, 9);
  copy(12, 70);
  copy(20, 30);
  people.all[30].species = people.all[20].size() > 150 ? "small" : "big";
  people.write();
  const json report = people.found("--config species.yaml --write x.txt");
  CHECK(report.at("train") == 60);
  CHECK(report.at("val") == 20);
  CHECK(report.at("columns") == json({"height", "weight", "city", "species"}));
  CHECK(report.at("exact_duplicates") ==
        json({{{"samples",
                {sample("train", "train.csv:7"), sample("train", "train.csv:9"),
                 sample("train", "train.csv:11")}}},
              {{"samples", {sample("train", "train.csv:14"), sample("val", "val.csv:12")}}}}));
  const json& contradictory = report.at("contradictory_labels");
  REQUIRE(contradictory.size() == 1);
  CHECK(contradictory[0].at("samples") ==
        json({sample("train", "train.csv:22"), sample("train", "train.csv:32")}));
  const std::set<std::string> classes = contradictory[0].at("targets");
  CHECK(classes == std::set<std::string>{"big", "small"});
  for (const char* list : {"constant_columns", "row_names", "predictive_columns"})
    CHECK(report.at(list).empty());
  CHECK(excluded_in(people.workspace.read("x.txt")) ==
        std::set<std::string>{"train train.csv:9", "train train.csv:11", "train train.csv:14",
                              "train train.csv:22", "train train.csv:32"});
  const std::string text = people.run("data check --config species.yaml").output;
  CHECK_THAT(text, ContainsSubstring("60 training and 20 validation samples\n"
                                     "columns compared: height, weight, city, species\n"
                                     "groups of equal rows (3 rows repeat another): 2\n"
                                     "  train train.csv:7 = train train.csv:9 = train train.csv:11\n"));
  const json rest = people.found("--config species.yaml data.exclude=x.txt --write y.txt");
  CHECK(rest.at("train") == 55);
  CHECK(rest.at("val") == 20);
  for (const char* list : kLists) CHECK(rest.at(list).empty());
  CHECK(people.workspace.read("y.txt") == people.workspace.read("x.txt"));
  // By a column, which need not be one that the network reads.
  people.run("data check --config species.yaml --id id --write z.txt");
  CHECK(excluded_in(people.workspace.read("z.txt")) ==
        std::set<std::string>{"train id=p7", "train id=p9", "train id=p12", "train id=p20", "train id=p30"});
  CHECK(people.found("--config species.yaml data.exclude=z.txt").at("train") == 55);
  // A part of the training rows for validation has its names in the same file.
  for (const char* part : {"data.val_fraction=0.5", "'data.fold={of: 3, index: 1}'"}) {
    const std::string words = std::string("--config species.yaml data.val=null ") + part;
    const json whole = people.found(words + " --write w.txt");
    CHECK(whole.at("exact_duplicates").size() == 1);
    const json fewer = people.found(words + " data.exclude=w.txt");
    CHECK(fewer.at("train").get<int>() + fewer.at("val").get<int>() == 56);
    CHECK(fewer.at("exact_duplicates").empty());
  }
}

TEST_CASE("data check of a target of numbers keeps rows with equal inputs, and names columns") {
  People people;
  people.all[10].height = people.all[4].height, people.all[10].weight = people.all[4].weight;
  people.all[10].city = people.all[4].city;
  people.write();
  // The target follows from the inputs, so another one is written.
  std::string train = people.workspace.read("train.csv");
  const size_t line = train.find("p10,"), end = train.find('\n', line);
  train.replace(train.rfind(',', end), end - train.rfind(',', end), ",99.5");
  people.workspace.write("train.csv", train);
  const json report = people.found("--config size.yaml --write x.txt");
  REQUIRE(report.at("contradictory_labels").size() == 1);
  CHECK(report.at("contradictory_labels")[0].at("targets")[1] == "99.5");
  CHECK(report.at("exact_duplicates").empty());
  CHECK(people.workspace.read("x.txt").empty());
  people.write();
  const json columns =
      people.found("--config species.yaml 'data.table.ignore=[]' model.input=[3] model.categories=2");
  CHECK(columns.at("row_names") == json({{{"column", "id"}}}));
  REQUIRE(columns.at("predictive_columns").size() == 1);
  CHECK(columns.at("predictive_columns")[0].at("column") == "size");
  CHECK(columns.at("predictive_columns")[0].at("target") == "species");
  CHECK(columns.at("predictive_columns")[0].at("how") == "threshold");
  CHECK(columns.at("constant_columns").empty());
  for (size_t i = 0; i < 60; ++i) people.all[i].city = "Lima";
  people.write();
  CHECK_THAT(people.run("data check --config species.yaml").output,
             ContainsSubstring("columns with one value: 1\n  city\n"));
  const auto refused = [&](const std::string& words, int code, const std::string& message) {
    CHECK_THAT(people.run("data check " + words, code).errors, ContainsSubstring(message));
  };
  refused("--config size.yaml --distance 3", 64, "--distance is for images");
  refused("--config size.yaml --id iid", 64, "--id: there is no column 'iid' in");
  refused("--config size.yaml data.format=synthetic", 78, "the samples are made up");
  people.workspace.write("x.txt", "train train.csv:2\ntrain id=p99\n");
  refused("--config size.yaml data.exclude=x.txt", 65, "x.txt:2: there is no sample 'id=p99' in data.train");
}

TEST_CASE("a run without excluded rows is that of a table without them, and other rows are another run") {
  People people;
  people.write();
  people.workspace.write("x.txt", "train train.csv:5\ntrain id=p40\nval val.csv:21\n");
  const std::string words = "train --config species.yaml data.exclude=x.txt checkpoint.interval=1ba ";
  people.run(words + "run.output_dir=whole");
  people.run(words + "run.output_dir=parts run.stop_after=17ba");
  people.run(words + "run.output_dir=parts");
  CHECK(people.workspace.read("parts/model.safetensors") == people.workspace.read("whole/model.safetensors"));
  CHECK_THAT(people.run("plan --config species.yaml data.exclude=x.txt").output,
             ContainsSubstring("58 training samples"));
  const std::string measured = people.run("eval whole --json").output;
  People without;
  std::string train = people.workspace.read("train.csv"), val = people.workspace.read("val.csv");
  for (const char* id : {"p3,", "p40,"})
    train.erase(train.find(id), train.find('\n', train.find(id)) + 1 - train.find(id));
  val.erase(val.find("p79,"));
  without.write();
  without.workspace.write("train.csv", train);
  without.workspace.write("val.csv", val);
  without.run("train --config species.yaml run.output_dir=whole");
  CHECK(without.workspace.read("whole/model.safetensors").size() ==
        people.workspace.read("whole/model.safetensors").size());
  CHECK(json::parse(without.run("eval whole --json").output).at("loss") == json::parse(measured).at("loss"));
  people.run(words + "run.output_dir=paused run.stop_after=3ba");
  people.workspace.write("x.txt", "train train.csv:5\ntrain id=p41\nval val.csv:21\n");
  CHECK_THAT(people.run(words + "run.output_dir=paused", 78).errors,
             ContainsSubstring("other excluded samples (data.exclude)"));
}

TEST_CASE("suspects of a table have wrong classes or wrong numbers, by the folds of all runs") {
  People people;
  std::set<std::string> wrong;
  std::vector<size_t> order(60);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, std::greater<>(), [&](size_t i) { return std::abs(people.all[i].size() - 150); });
  for (size_t i = 0; i < 3; ++i) {  // the clearest ones
    Person& person = people.all[order[i]];
    person.species = person.size() > 150 ? "small" : "big";
    wrong.insert("train.csv:" + std::to_string(order[i] + 2));
  }
  people.write();
  for (const char* target : {"species", "size"}) {
    std::string runs;
    for (int fold = 0; fold < 3; ++fold) {
      const std::string name = std::string(target) + std::to_string(fold);
      people.run("train --config " + std::string(target) + ".yaml data.val=null 'data.fold={of: 3, index: " +
                 std::to_string(fold) + "}' run.output_dir=" + name);
      runs += " --run " + name;
    }
    const bool are_numbers = target == std::string("size");
    if (are_numbers) {
      // Of numbers, one target is far off in the file that is judged.
      std::string train = people.workspace.read("train.csv");
      const size_t line = train.find("p21,"), end = train.find('\n', line);
      train.replace(train.rfind(',', end), end - train.rfind(',', end), ",-700");
      people.workspace.write("train.csv", train);
    }
    const json suspects = people.found("--suspects 3 --write x.txt" + runs).at("suspects");
    REQUIRE(suspects.size() == 3);
    if (are_numbers) {
      CHECK(suspects[0].at("sample") == "train.csv:23");
      CHECK(suspects[0].at("targets").at("size") == -700);
      CHECK(suspects[0].at("predicted").at("size").get<double>() > -100);
      CHECK(suspects[0].at("deviations").get<double>() > suspects[1].at("deviations").get<double>());
      CHECK(suspects[1].at("deviations").get<double>() >= suspects[2].at("deviations").get<double>());
      CHECK_THAT(people.run("data check --suspects 3 --id id" + runs).output,
                 ContainsSubstring("samples with the largest errors, of 60 that were not trained on: 3\n"
                                   "  val id=p21: size -700, predicted "));
    } else {
      std::set<std::string> found;
      for (const json& suspect : suspects) {
        found.insert(suspect.at("sample").get<std::string>());
        CHECK(suspect.at("label") != suspect.at("predicted"));
        CHECK(suspect.at("probability").get<double>() < 0.5);
      }
      CHECK(found == wrong);
      CHECK(people.found("--suspects 1000" + runs).at("suspects").size() == 60);
    }
    for (const json& suspect : suspects)
      CHECK_THAT(people.workspace.read("x.txt"),
                 ContainsSubstring("\ntrain " + suspect.at("sample").get<std::string>() + "\n"));
  }
  people.run("train --config size.yaml run.output_dir=own training.max_duration=1ep");
  CHECK_THAT(people.run("data check --suspects 3 --run species0 --run own", 78).errors,
             ContainsSubstring("some of the runs predict classes and others numbers"));
}

}  // namespace trainer
