// SPDX-License-Identifier: Apache-2.0
#include "tests/recipe/mutation.h"

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include "tests/catch.h"

#include "core/base/regular_file.h"
#include "core/recipe/recipe.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::vector<fs::path> yaml_files_in(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".yaml") found.push_back(entry.path());
  }
  return found;
}

/// A copy of the shipped recipes that a test may spoil.
class Copies {
 public:
  Copies() : root_(fs::temp_directory_path() / ("recipes-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::copy(fs::path(TRAINER_SOURCE_DIR) / "configs", root_, fs::copy_options::recursive);
  }
  ~Copies() { fs::remove_all(root_); }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

std::string problems_of(const fs::path& recipe) {
  try {
    Recipe::load(recipe.string(), {});
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::recipe);
    return error.what();
  }
  return "no error at all";
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// If one place alone uses a template, a misspelt definition is reported there, as a misspelt use would
/// be.
bool is_reported_at_its_use(const std::string& problems, const Mutation& mutation) {
  const std::string before = " misspelt as ";
  const size_t at = mutation.what.find(before);
  if (at == std::string::npos) return false;
  return problems.find("unknown name '" + mutation.suggestion + "'; did you mean '" +
                       mutation.what.substr(at + before.size()) + "'?") != std::string::npos;
}

/// Spoils `file`, loads `recipe` (the same file, or one that includes it) and requires exactly one error
/// there.
void check(const fs::path& recipe, const fs::path& file, const Mutation& mutation) {
  const std::string good = read_text(file).value();
  write_text(file, mutation.text);
  const std::string problems = problems_of(recipe);
  write_text(file, good);
  INFO(mutation.what << "\n" << problems << "\n" << mutation.text);
  CHECK(count(problems, ": error: ") == 1);
  const std::string place = file.lexically_normal().string() + ":" + std::to_string(mutation.line) + ":" +
                            std::to_string(mutation.column) + ": error: ";
  if (is_reported_at_its_use(problems, mutation)) return;
  CHECK(problems.starts_with(place));
  if (!mutation.suggestion.empty())
    CHECK(problems.find("did you mean '" + mutation.suggestion + "'?") != std::string::npos);
}

void check_every_key(const fs::path& recipe, const fs::path& file) {
  const std::string text = read_text(file).value();
  const std::vector<KeyPlace> keys = find_keys(text);
  REQUIRE(keys.size() > 4);
  constexpr size_t kStep = few_or_all<size_t>(83, 1);  // a fuzzer spoils recipes under sanitizers, too
  for (size_t i = text.size() % std::min(kStep, keys.size()); i < keys.size(); i += kStep) {
    const KeyPlace& key = keys[i];
    for (const Mutation& mutation : misspellings(text, key)) check(recipe, file, mutation);
    check(recipe, file, duplicated(text, key));
    check(recipe, file, wrong_type(text, key));
    const bool top_level = key.path.find_first_of(".[") == std::string::npos;
    if (!top_level && !key.is_only_item && !key.leads_item) check(recipe, file, wrong_level(text, key));
  }
}

}  // namespace

TEST_CASE("every shipped recipe loads") {
  const fs::path configs = fs::path(TRAINER_SOURCE_DIR) / "configs";
  for (const fs::path& path : yaml_files_in(configs)) {
    INFO(path);
    CHECK_NOTHROW(Recipe::load(path.string(), {}));
    CHECK_NOTHROW(Recipe::load(path.string(), {"data.format=synthetic", "data.val_fraction=0"}));
  }
}

TEST_CASE("every key of every shipped recipe, spoilt, gives one error at its place") {
  const Copies copies;
  for (const fs::path& recipe : yaml_files_in(copies.root())) {
    INFO(recipe);
    check_every_key(recipe, recipe);
  }
}

TEST_CASE("every key of every shipped network, spoilt, gives one error at its place, in templates too") {
  const Copies copies;
  const fs::path recipe = copies.root() / "any_network.yaml";
  const std::vector<fs::path> networks = yaml_files_in(copies.root() / "models");
  REQUIRE(networks.size() > 4);
  for (const fs::path& network : networks) {
    INFO(network);
    write_text(recipe,
               "model: {network: models/" + network.filename().string() + "}\ndata: {format: synthetic}\n");
    CHECK_NOTHROW(Recipe::load(recipe.string(), {}));
    check_every_key(recipe, network);
  }
}

}  // namespace trainer
