// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/command_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/config/messages.h"
#include "core/config/other_names.h"

namespace trainer {
namespace {

const std::vector<std::string>& commands() {
  static const std::vector<std::string> names = {
      "train",   "init", "eval",   "predict", "generate", "export",     "prune",  "quantize", "plan",
      "time",    "tune", "sweep",  "slurm",   "layers",   "data",       "schema", "doctor",   "import",
      "inspect", "runs", "report", "watch",   "track",    "completion", "man"};
  return names;
}

[[noreturn]] void throw_unknown(const std::string& command) {
  std::error_code unknown;
  const auto status = std::filesystem::status(command, unknown);
  std::string answer = suggestion(command, commands());
  if (std::filesystem::is_directory(status))
    answer =
        fmt::format("; `trainer init {}` writes a recipe for the samples in that folder", shown(command));
  else if (std::filesystem::is_regular_file(status))
    answer = fmt::format("; if that file is a recipe: `trainer --config {}`", shown(command));
  throw Error(ExitCode::usage, fmt::format("unknown command '{}'{}", shown(command), answer));
}

/// Whether a word without an option is the recipe.
bool is_recipe(const std::string& word) {
  const bool is_plain = !word.starts_with("-") && word.find('=') == std::string::npos;
  std::error_code ignored;
  if (std::filesystem::is_directory(word, ignored)) return false;  // of a run
  return is_plain && (word.ends_with(".yaml") || word.ends_with(".yml"));
}

}  // namespace

std::vector<std::string> with_command(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words == std::vector<std::string>{"help"}) return {"--help"};
  if (words[0] == "version" || words[0] == "-v" || words[0] == "-V") return {"--version"};
  if (words[0] == "help") {  // trainer help plan
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "--version") return words;
  const bool has_command = std::find(commands().begin(), commands().end(), words[0]) != commands().end();
  if (!has_command &&
      (words[0].starts_with("-") || words[0].find('=') != std::string::npos || is_recipe(words[0]))) {
    words.insert(words.begin(), "train");
  } else if (!has_command) {
    throw_unknown(words[0]);
  }
  // Only the word after the command: later ones may belong to an option.
  const size_t place = words[0] == "data" || words[0] == "tune" ? 2 : 1;
  const bool takes_recipe = words[0] != "init" && words[0] != "inspect" && words[0] != "import" &&
                            words[0] != "runs" && words[0] != "report" && words[0] != "watch" &&
                            words[0] != "track" && words[0] != "completion";
  if (takes_recipe && words.size() > place && is_recipe(words[place]))
    words.insert(words.begin() + static_cast<int64_t>(place), "--config");
  return words;
}

std::string key_of_option(const std::string& word) {
  if (!word.starts_with("--")) return "";
  std::string key = word.substr(2, word.find('=') - 2);
  std::ranges::replace(key, '-', '_');
  const OtherName* known = find_other_name(key);
  if (known == nullptr) return "; keys of the recipe are written without dashes, such as optimizer.lr=0.1";
  const std::string example = *known->example == '\0' ? "..." : known->example;
  return fmt::format("; write the recipe's key, {}={}", known->ours, example);
}

}  // namespace trainer
