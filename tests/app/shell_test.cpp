// SPDX-License-Identifier: Apache-2.0
// What the program prints about itself for shells and for `man`.
#include <algorithm>
#include <regex>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

using Strings = std::vector<std::string>;

/// Completions of the last word: the paths to offer, then the words.
Strings completions(const Strings& words) {
  const Workspace workspace;
  Strings arguments = {"completion", "words", "--"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Outcome outcome = run_trainer(arguments, workspace.path());
  CHECK(outcome.code == 0);
  CHECK(outcome.errors.empty());
  Strings found = lines_of(outcome.output);
  for (std::string& line : found) line = line.substr(0, line.find('\t'));
  return found;
}

bool is_installed(const Workspace& workspace, const std::string& program) {
  const bool found = run_shell("command -v " + program, workspace.path()).code == 0;
  if (!found) WARN(program << " is not installed: what needs it is left out");
  return found;
}

/// The script of `shell` in a file of its name.
void write_script(const Workspace& workspace, const std::string& shell) {
  const Outcome outcome = run_trainer({"completion", shell}, workspace.path());
  REQUIRE(outcome.code == 0);
  workspace.write(shell, outcome.output);
}

/// The matches of the first group in the lines of a command's help.
Strings in_help(const Strings& command, const char* pattern) {
  const Workspace workspace;
  Strings words = command;
  words.emplace_back("--help");
  const std::regex regex(pattern);
  Strings found;
  for (const std::string& line : lines_of(run_trainer(words, workspace.path()).output)) {
    std::smatch match;
    if (std::regex_search(line, match, regex)) found.push_back(match[1]);
  }
  return found;
}

/// Every command, `data stats` as two words, the program itself as none.
std::vector<Strings> all_commands() {
  std::vector<Strings> commands = {{}};
  for (size_t i = 0; i < commands.size(); ++i) {
    const Strings command = commands[i];
    if (command.size() == 2) continue;
    // The last table of a help that has one.
    bool is_below = false;
    Strings words = command;
    words.emplace_back("--help");
    const Workspace workspace;
    for (const std::string& line : lines_of(run_trainer(words, workspace.path()).output)) {
      if (line.empty()) is_below = false;
      std::smatch match;
      static const std::regex name("^  ([a-z]+) ");
      if (is_below && std::regex_search(line, match, name)) {
        commands.push_back(command);
        commands.back().push_back(match[1]);
      }
      if (line == "Subcommands:") is_below = true;
    }
  }
  return commands;
}

}  // namespace

TEST_CASE("words of a command line are completed: commands, options and their values") {
  CHECK(completions({"pl"}) == Strings{"none", "plan"});
  CHECK(completions({"data", ""}) == Strings{"none", "stats", "check", "pack", "tokenize"});
  CHECK(completions({"plan", "--du"}) == Strings{"none", "--dump-config", "--dump"});
  CHECK(completions({"--prof"}) == Strings{"none", "--profile"});  // of `train`, which may be omitted
  CHECK(completions({"--vers"}) == Strings{"none", "--version"});
  CHECK(completions({"--config", "r"}) == Strings{"files"});
  CHECK(completions({"eval", "--config=r"}) == Strings{"files"});
  CHECK(completions({"predict", "--split", ""}) == Strings{"none", "train", "val"});
  CHECK(completions({"predict", "--split=v"}) == Strings{"none", "--split=val"});
  CHECK(completions({"plan", "--config", "r.yaml", "--dump", "p"}) == Strings{"none", "program", "plan"});
  CHECK(completions({"--profile", ""}) == Strings{"none"});
  CHECK(completions({"inspect", ""}) == Strings{"files"});
  CHECK(completions({"configs/re"}) == Strings{"files"});  // a recipe
  CHECK(completions({"runs", ""}) == Strings{"directories", "compare"});
  CHECK(completions({"completion", "f"}) == Strings{"none", "fish"});
  CHECK(completions({"nothing", "like", "that"}) == Strings{"none"});
}

TEST_CASE("keys of a recipe are completed: sections, keys, values") {
  const auto after_config = [&](const std::string& word) {
    return completions({"--config", "r.yaml", word});
  };
  CHECK(after_config("optim") == Strings{"none", "optimizer."});
  CHECK(after_config("optimizer.mom") == Strings{"none", "optimizer.momentum="});
  CHECK(after_config("optimizer.name=sg") == Strings{"none", "optimizer.name=sgd"});
  CHECK(after_config("validation.") != Strings{"none"});
  CHECK(after_config("runtime.autotune=") ==
        Strings{"none", "runtime.autotune=true", "runtime.autotune=false"});
  CHECK(after_config("data.train=") == Strings{"files"});
  CHECK(after_config("optimizer.lr=") == Strings{"none"});
  CHECK(after_config("no.such=") == Strings{"none"});
  CHECK(completions({"run.see"}) == Strings{"none", "run.seed="});
  CHECK(completions({"predict", "--config", "r.yaml", "run.see"}) == Strings{"files", "run.seed="});
}

TEST_CASE("every command and every option of the help is completed") {
  const std::vector<Strings> commands = all_commands();
  CHECK(commands.size() > 12);
  for (const Strings& command : commands) {
    Strings words = command;
    if (!command.empty()) {
      words.back() = command.back().substr(0, command.back().size() - 1);
      CHECK_THAT(completions(words), Catch::Matchers::VectorContains(command.back()));
    }
    words = command;
    words.emplace_back("--");
    for (const std::string& option : in_help(command, "^  (?:-[a-z],)?(--[a-z-]+)"))
      CHECK_THAT(completions(words), Catch::Matchers::VectorContains(option));
  }
}

TEST_CASE("bash completes, with words split as it splits them") {
  const Workspace workspace;
  write_script(workspace, "bash");
  workspace.write("recipe.yaml", kSmallRecipe);
  const auto completed = [&](const std::string& words) {
    workspace.write("try", "source ./bash\ncomplete -p trainer >complete.txt\nCOMP_WORDS=(\"$TRAINER\" " +
                               words +
                               ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_trainer \"$TRAINER\"\n"
                               "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
    const Outcome outcome = run_shell("bash -u try", workspace.path());
    CHECK(outcome.code == 0);
    CHECK(outcome.errors.empty());
    return lines_of(outcome.output);
  };
  CHECK(completed("pl") == Strings{"plan"});
  CHECK(workspace.read("complete.txt") == "complete -F _trainer trainer\n");
  CHECK(completed("plan --config rec") == Strings{"recipe.yaml"});
  CHECK(completed("plan --config recipe.yaml optimizer.mom") == Strings{"optimizer.momentum="});
  CHECK(completed("plan --config recipe.yaml optimizer.name = sg") == Strings{"sgd"});
  CHECK(completed("plan --config recipe.yaml runtime.autotune =") == Strings{"true", "false"});
  CHECK(completed("data.train = rec") == Strings{"recipe.yaml"});
  CHECK(completed("optimizer.name=sg") == Strings{"optimizer.name=sgd"});  // '=' not in COMP_WORDBREAKS
  CHECK(completed("predict --split ''") == Strings{"train", "val"});
  CHECK(completed("optimizer.lr = 0.1 run.see") == Strings{"run.seed="});
}

TEST_CASE("zsh and fish read their scripts, and fish completes") {
  const Workspace workspace;
  write_script(workspace, "zsh");
  write_script(workspace, "fish");
  if (is_installed(workspace, "zsh")) {
    const Outcome zsh = run_shell("zsh -n zsh", workspace.path());
    CHECK(zsh.code == 0);
    CHECK(zsh.errors.empty());
  }
  if (!is_installed(workspace, "fish")) return;
  const auto completed = [&](const std::string& line) {
    const std::string path = "PATH=$(dirname \"$TRAINER\"):$PATH HOME=$PWD ";
    const Outcome outcome =
        run_shell(path + "fish --no-config -c 'source fish; complete -C \"" + line + "\"'", workspace.path());
    CHECK(outcome.code == 0);
    CHECK(outcome.errors.empty());
    Strings found = lines_of(outcome.output);
    for (std::string& word : found) word = word.substr(0, word.find('\t'));
    return found;
  };
  CHECK(run_shell("fish -n fish", workspace.path()).code == 0);
  CHECK(completed("trainer pl") == Strings{"plan"});
  CHECK(completed("trainer ins") == Strings{"inspect"});
  CHECK(completed("trainer plan --config r.yaml optimizer.name=sg") == Strings{"optimizer.name=sgd"});
  workspace.write("recipe.yaml", kSmallRecipe);
  CHECK(completed("trainer --config rec") == Strings{"recipe.yaml"});
}

TEST_CASE("the manual page has every command and every option") {
  const Workspace workspace;
  workspace.write("trainer.1", run_trainer({"man"}, workspace.path()).output);
  std::string page = workspace.read("trainer.1");
  page = std::regex_replace(page, std::regex(R"(\\f[BIR]|\\)"), "");
  if (is_installed(workspace, "man")) {
    const Outcome outcome = run_shell(
        "LC_ALL=C.UTF-8 MANPAGER=cat MANWIDTH=300 man --warnings -l ./trainer.1 | col -bx", workspace.path());
    CHECK(outcome.code == 0);
    CHECK(outcome.errors.empty());
    page = outcome.output;
    CHECK(page.size() > 3000);
  }
  for (const Strings& command : all_commands()) {
    std::string title = "trainer";
    for (const std::string& word : command) title += " " + word;
    const size_t begin = page.find("   " + title + "\n");
    if (!command.empty()) CHECK(begin != std::string::npos);
    for (const std::string& option : in_help(command, "^  (?:-[a-z],)?(--[a-z-]+)")) {
      INFO(title << " " << option);
      CHECK(page.find(option, command.empty() || option == "--help" ? 0 : begin) != std::string::npos);
    }
  }
}

TEST_CASE("the help of every command has an example and its own exit codes") {
  for (const Strings& command : all_commands()) {
    Strings words = command;
    words.emplace_back("--help");
    const Workspace workspace;
    const std::string help = run_trainer(words, workspace.path()).output;
    INFO(help);
    std::string path = "trainer";
    for (const std::string& word : command) path += " " + word;
    CHECK(help.find("\nExample:\n  " + path + " ") != std::string::npos);
    CHECK(help.find("\nExit codes: 0 done, 64 usage, ") != std::string::npos);
    for (const std::string& line : lines_of(help.substr(help.find("\nExample:")))) CHECK(line.size() <= 100);
  }
}

TEST_CASE("a recipe may stand alone behind the program or a command") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const std::string named = run_trainer({"--config", "small.yaml", "--dump-config"}, workspace.path()).output;
  CHECK(named.find("optimizer:") != std::string::npos);
  CHECK(run_trainer({"small.yaml", "--dump-config"}, workspace.path()).output == named);
  CHECK(run_trainer({"plan", "small.yaml", "run.seed=3", "--dump", "plan"}, workspace.path()).output ==
        run_trainer({"plan", "-c", "small.yaml", "run.seed=3", "--dump", "plan"}, workspace.path()).output);
  CHECK(run_trainer({"data", "stats", "small.yaml", "--json"}, workspace.path()).code == 0);
  const Outcome absent = run_trainer({"smal.yaml"}, workspace.path());
  CHECK(absent.code == 78);
  CHECK(
      absent.errors.find("cannot read 'smal.yaml': No such file or directory; did you mean 'small.yaml'?") !=
      std::string::npos);
  const Outcome twice = run_trainer({"small.yaml", "-c", "small.yaml"}, workspace.path());
  CHECK(twice.code == 64);
}

TEST_CASE("habits of other command lines are answered with what to write") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  workspace.write("images/bag/notes.txt", "");
  const std::string help = run_trainer({"plan", "--help"}, workspace.path()).output;
  CHECK(run_trainer({"help", "plan"}, workspace.path()).output == help);
  CHECK(run_trainer({"help"}, workspace.path()).output == run_trainer({"--help"}, workspace.path()).output);
  CHECK(run_trainer({"-v"}, workspace.path()).output == run_trainer({"--version"}, workspace.path()).output);
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"small.yaml", "--epochs", "3"}, "--epochs; write the recipe's key, training.max_duration=10ep"},
      {{"small.yaml", "--batch-size=8"}, "write the recipe's key, training.global_batch_size=..."},
      {{"small.yaml", "--lr", "0.1"}, "keys of the recipe are written without dashes, such as optimizer.lr="},
      {{"small.yaml", "-q"}, "-q; see `trainer train --help`"},
      {{"images"}, "unknown command 'images'; `trainer init images` writes a recipe for the samples in"},
      {{"images/bag/notes.txt"}, "if that file is a recipe: `trainer --config images/bag/notes.txt`"},
      {{"small.yaml", "--profile", "run.seed=2"},
       "--profile: expected a whole number of at least 1, got 'run.seed=2'; see `trainer train --help`"},
      {{"plan", "small.yaml", "--decode-rate", "fast"}, "expected a number from 1e-06 to 1e+12, got 'fast'"},
      {{"trian"}, "unknown command 'trian'; did you mean 'train'?"}};
  for (const auto& [words, expected] : cases) {
    const Outcome outcome = run_trainer(words, workspace.path());
    INFO(outcome.errors);
    CHECK(outcome.code == 64);
    CHECK(outcome.errors.find(expected) != std::string::npos);
  }
}

TEST_CASE("the profile of a finished run says what to do instead") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const std::vector<std::string> words = {"small.yaml", "run.output_dir=run", "training.max_duration=2ba"};
  REQUIRE(run_trainer(words, workspace.path()).code == 0);
  Strings profiled = words;
  profiled.insert(profiled.end(), {"--profile", "5"});
  const Outcome outcome = run_trainer(profiled, workspace.path());
  CHECK(outcome.code == 0);
  CHECK(outcome.errors.find(
            "a finished run has no steps left to profile; train another one: run.output_dir=PATH") !=
        std::string::npos);
}

}  // namespace trainer
