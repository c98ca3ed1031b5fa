// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <set>
#include <utility>
#include "tests/catch.h"

#include "tests/config/sample.h"

namespace trainer {

namespace {

/// The problem of the good recipe with one piece replaced.
std::string problem_with(const std::string& from, const std::string& to) {
  return Read(replaced(kGoodRecipe, from, to)).problem();
}

std::vector<std::string> misspellings(const std::string& word) {
  std::set<std::string> all;
  for (size_t i = 0; i < word.size(); ++i) {
    if (word.size() > 1) all.insert(word.substr(0, i) + word.substr(i + 1));
    all.insert(word.substr(0, i) + word[i] + word.substr(i));
    if (i > 0 && word[i] != word[i - 1]) {
      std::string swapped = word;
      std::swap(swapped[i], swapped[i - 1]);
      all.insert(swapped);
    }
  }
  all.insert(word + "x");
  return {all.begin(), all.end()};
}

/// Calls `visit` with the path of every map entry below `value`, as steps that find it again.
void each_entry(Value& value, const std::function<void(Value::Entry&)>& visit) {
  for (Value& item : value.items) each_entry(item, visit);
  for (Value::Entry& entry : value.entries) {
    visit(entry);
    each_entry(entry.value, visit);
  }
}

std::vector<std::string> problems_of(const Value& root) {
  Sample sample;
  Fields fields;
  Diagnostics diagnostics;
  sample.declare(fields);
  fields.read(root, "", diagnostics);
  return diagnostics.problems();
}

}  // namespace

TEST_CASE("a misspelt key is one error at the key, with the original as suggestion") {
  Diagnostics diagnostics;
  Value root = parse_yaml(kGoodRecipe, "r.yaml", diagnostics);
  int tried = 0;
  each_entry(root, [&](Value::Entry& entry) {
    const std::string original = entry.key;
    for (const std::string& misspelt : misspellings(original)) {
      entry.key = misspelt;
      const std::vector<std::string> problems = problems_of(root);
      INFO(original << " as " << misspelt);
      CHECK(problems.size() == 1);
      if (problems.empty()) continue;
      INFO(problems[0]);
      CHECK(problems[0].starts_with(to_string(entry.where) + ": error: "));
      CHECK(problems[0].ends_with("'" + misspelt + "'; did you mean '" + original + "'?"));
      ++tried;
    }
    entry.key = original;
  });
  CHECK(tried > 300);
}

TEST_CASE("a value of another type is one error at its key") {
  Diagnostics diagnostics;
  Value root = parse_yaml(kGoodRecipe, "r.yaml", diagnostics);
  Value wrong = parse_yaml("{a: {b: [1]}}", "other", diagnostics);
  each_entry(root, [&](Value::Entry& entry) {
    const bool holds_map = entry.value.kind == Value::Kind::map;
    const Value original = entry.value;
    entry.value = holds_map ? wrong.entries[0].value.entries[0].value : wrong;
    entry.value.where = original.where;
    const std::vector<std::string> problems = problems_of(root);
    entry.value = original;
    INFO(entry.key);
    REQUIRE(problems.size() == 1);
    INFO(problems[0]);
    CHECK(problems[0].starts_with(to_string(entry.where) + ": error: "));
    CHECK(problems[0].find("expected ") != std::string::npos);
  });
}

TEST_CASE("a key moved to the top level is one error that says where it belongs") {
  Diagnostics diagnostics;
  const Value good = parse_yaml(kGoodRecipe, "r.yaml", diagnostics);
  for (size_t section = 0; section < good.entries.size(); ++section) {
    for (size_t i = 0; i < good.entries[section].value.entries.size(); ++i) {
      Value root = good;
      std::vector<Value::Entry>& keys = root.entries[section].value.entries;
      const Value::Entry moved = keys[i];
      keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(i));
      root.entries.push_back(moved);
      const std::vector<std::string> problems = problems_of(root);
      INFO(moved.key);
      REQUIRE(problems.size() == 1);
      CHECK(problems[0].starts_with(to_string(moved.where) + ": error: unknown key '" + moved.key + "'; '" +
                                    moved.key + "' belongs under '"));
      CHECK(problems[0].find("'" + root.entries[section].key + "'") != std::string::npos);
    }
  }
}

TEST_CASE("a key moved from any map of keys into any other is one error at the key") {
  Diagnostics diagnostics;
  const Value good = parse_yaml(kGoodRecipe, "r.yaml", diagnostics);
  // The top level, its sections and the parameters of the layers, found again in each copy.
  const auto maps_of = [](Value& root) {
    std::vector<Value*> maps = {&root};
    for (Value::Entry& entry : root.entries) {
      if (entry.value.kind == Value::Kind::map) maps.push_back(&entry.value);
    }
    for (Value& item : root.entries.back().value.items) {
      if (item.kind == Value::Kind::map) maps.push_back(&item.entries[0].value);
    }
    return maps;
  };
  Value original = good;
  const std::vector<Value*> maps = maps_of(original);
  REQUIRE(maps.size() == 7);
  int tried = 0;
  for (size_t from = 0; from < maps.size(); ++from) {
    for (size_t i = 0; i < maps[from]->entries.size(); ++i) {
      for (size_t to = 0; to < maps.size(); ++to) {
        const Value::Entry moved = maps[from]->entries[i];
        const bool into_itself =
            &maps[from]->entries[i].value == maps[to] || (moved.key == "model" && to >= 5);
        if (to == from || into_itself || maps[to]->find(moved.key)) continue;
        Value root = good;
        const std::vector<Value*> copies = maps_of(root);
        // The top level is changed last: its change moves the maps in it.
        const auto erase = [&] {
          copies[from]->entries.erase(copies[from]->entries.begin() + static_cast<long>(i));
        };
        if (to == 0) erase();
        copies[to]->entries.push_back(moved);
        if (to != 0) erase();
        const std::vector<std::string> problems = problems_of(root);
        INFO(moved.key << " from map " << from << " into " << to);
        for (const std::string& problem : problems) UNSCOPED_INFO(problem);
        CHECK(problems.size() == 1);
        if (!problems.empty()) CHECK(problems[0].find("'" + moved.key + "' belongs ") != std::string::npos);
        if (!problems.empty()) CHECK(problems[0].starts_with(to_string(moved.where) + ": error: "));
        ++tried;
      }
    }
  }
  CHECK(tried > 80);
}

TEST_CASE("keys on the wrong level") {
  CHECK(
      problem_with("  train: digits\n", "  train: digits\n  micro_batch_size: 3\n") ==
      "r.yaml:5:3: error: data: unknown key 'micro_batch_size'; 'micro_batch_size' belongs under 'training'");
  CHECK(problem_with("version: 1\nrun: {name: mnist", "run: {version: 1, name: mnist") ==
        "r.yaml:1:7: error: run: unknown key 'version'; 'version' belongs at the top level");
  CHECK(problem_with("version: 1\n", "version: 1\nout_channels: 3\n") ==
        "r.yaml:2:1: error: unknown key 'out_channels'; 'out_channels' belongs under 'model[0].conv2d'");
  CHECK(problem_with("conv2d: {out_channels: 8, kernel: [3, 5]}", "conv2d:\n    out_channels: 3") ==
        "r.yaml:17:5: error: model[0]: expected one component, found another key 'out_channels' beside it; "
        "indent it "
        "further if it belongs under 'conv2d'");
  CHECK(
      problem_with("  - relu\n", "    relu:\n") ==
      "r.yaml:17:5: error: model[0]: expected one component, found another key 'relu' beside it; start each "
      "component of the list with '- '");
  CHECK(problem_with("version: 1\n", "version: 1\ncolour: red\n") ==
        "r.yaml:2:1: error: unknown key 'colour'; known keys: device, version, run, data, training, "
        "optimizer, model");
}

TEST_CASE("missing keys, once each, at their map") {
  CHECK(problem_with("  train: digits\n", "") ==
        "r.yaml:4:3: error: data: missing key 'train', expected text (training files)");
  CHECK(problem_with("data:\n  train: digits\n  format: idx\n", "data:\n") ==
        "r.yaml:3:1: error: data: missing key 'train', expected text (training files)");
  CHECK(problem_with("data:\n  train: digits\n  format: idx\n", "") ==
        "r.yaml:1:1: error: data: missing key 'train', expected text (training files)");
  CHECK(problem_with("out_channels: 8, ", "") ==
        "r.yaml:16:13: error: model[0].conv2d: missing key 'out_channels', expected integer (channels made)");
  CHECK(problem_with("conv2d: {out_channels: 8, kernel: [3, 5]}", "conv2d") ==
        "r.yaml:16:5: error: model[0].conv2d: missing key 'out_channels', expected integer (channels made)");
  CHECK(Read("").problem() ==
        "r.yaml:1:1: error: data: missing key 'train', expected text (training files)\n"
        "r.yaml:1:1: error: missing key 'model', expected a list (the layers)");
}

TEST_CASE("what cannot be read is reported once, by the parser") {
  unsetenv("TRAINER_TEST_NONE");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"version: 1", "version: ${env:TRAINER_TEST_NONE}"},
           {"out_channels: 8", "out_channels: '${env:TRAINER_TEST_NONE}'"},
           {"name: sgd", "name: ${env:TRAINER_TEST_NONE}"},
           {"  - relu", "  - ${env:TRAINER_TEST_NONE}"},
           {"[top1, top5]", "[top1, '${env:TRAINER_TEST_NONE}']"},
           {"version: 1", "version: 1\nversion: x"},
           {"version: 1", "version: ["}}) {
    const Read read(replaced(kGoodRecipe, from, to));
    INFO(read.problem());
    CHECK(read.diagnostics.problems().size() == 1);
  }
}

TEST_CASE("several mistakes are all reported, in the order of the file") {
  std::string text = replaced(kGoodRecipe, "version: 1", "version: 0");
  text = replaced(text, "seed: 7", "sed: 7");
  text = replaced(text, "train: digits", "train: []");
  text = replaced(text, "- relu", "- rely");
  CHECK(Read(text).problem() ==
        "r.yaml:1:1: error: version: must be at least 1, got 0\n"
        "r.yaml:2:20: error: run: unknown key 'sed'; did you mean 'seed'?\n"
        "r.yaml:4:3: error: data.train: expected text, found a list\n"
        "r.yaml:17:5: error: model[1].rely: unknown name 'rely'; did you mean 'relu'?");
}

TEST_CASE("the nearest name") {
  CHECK(nearest("momentun", {"lr", "momentum"}) == "momentum");
  CHECK(nearest("px", {"lr", "p"}) == "p");
  CHECK(nearest(std::string(300, 'a'), {std::string(299, 'a')}) == std::nullopt);
  CHECK(nearest("l", {"p", "lr"}) == "lr");
  CHECK(nearest("rl", {"p", "lr"}) == "lr");
  CHECK(nearest("nmae", {"seed", "name"}) == "name");
  CHECK(nearest("LR", {"seed", "lr"}) == "lr");
  CHECK(nearest("batch-size", {"batch_size"}) == "batch_size");
  CHECK_FALSE(nearest("colour", {"lr", "momentum"}));
  CHECK_FALSE(nearest("lr", {"lr", "l"}));  // what was typed
  CHECK_FALSE(nearest("abcd", {"abxy"}));
  CHECK_FALSE(nearest("", {"p"}));
  CHECK_FALSE(nearest(std::string(1 << 20, 'x'), {"p"}));
}

}  // namespace trainer
