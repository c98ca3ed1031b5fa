// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/completion.h"

#include <algorithm>

#include "core/base/split.h"

namespace trainer {
namespace {

using Option = CommandHelp::Option;

const CommandHelp* find_command(const CommandHelp& command, const std::string& name) {
  const auto found = std::ranges::find(command.commands, name, &CommandHelp::name);
  return found == command.commands.end() ? nullptr : &*found;
}

const Option* find_option(const CommandHelp& command, const std::string& name) {
  const auto has_name = [&](const Option& option) {
    return std::ranges::find(option.names, name) != option.names.end();
  };
  const auto found = std::ranges::find_if(command.options, has_name);
  return found == command.options.end() ? nullptr : &*found;
}

/// Collects the completions of the word `begun`.
class Completer {
 public:
  Completer(std::string begun, const std::vector<RecipeKey>& keys) : begun_(std::move(begun)), keys_(keys) {}

  void offer(const std::string& text, const std::string& help) {
    const auto is_there = [&](const Completions::Word& word) { return word.text == text; };
    if (text.starts_with(begun_) && std::ranges::none_of(found_.words, is_there))
      found_.words.push_back({text, help});
  }

  void offer_commands(const CommandHelp& command) {
    for (const CommandHelp& below : command.commands) offer(below.name, below.help);
  }

  void offer_options(const CommandHelp& command) {
    for (const Option& option : command.options) {
      for (const std::string& name : option.names) offer(name, option.help);
    }
  }

  /// A value is described by alternatives such as FILE|KEY=VALUE; one in small letters is the value itself.
  void offer_values(const Option& option, const std::string& before = "") {
    for (const std::string& value : split(option.value, '|')) {
      if (value == "KEY=VALUE") {
        offer_overrides();
      } else if (value == "FILE") {
        found_.paths = Completions::Paths::files;
      } else if (value == "DIRECTORY") {
        found_.paths = Completions::Paths::directories;
      } else if (value.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos) {
        offer(before + value, option.help);
      }
    }
  }

  /// Sections one by one, then their keys, then the values of a key.
  void offer_overrides() {
    const size_t equals = begun_.find('=');
    if (equals != std::string::npos) {
      const auto key = std::ranges::find(keys_, begun_.substr(0, equals), &RecipeKey::path);
      if (key == keys_.end()) return;
      for (const std::string& value : key->values) offer(key->path + "=" + value, key->help);
      if (key->is_text) found_.paths = Completions::Paths::files;
      return;
    }
    for (const RecipeKey& key : keys_) {
      if (!key.path.starts_with(begun_)) continue;
      const size_t dot = key.path.find('.', begun_.size());
      dot == std::string::npos ? offer(key.path + "=", key.help) : offer(key.path.substr(0, dot + 1), "");
    }
  }

  Completions take() { return std::move(found_); }

  /// The first word may also be the recipe.
  Completions take_or_files() {
    if (found_.words.empty() && !begun_.starts_with('-')) found_.paths = Completions::Paths::files;
    return take();
  }

 private:
  const std::string begun_;
  const std::vector<RecipeKey>& keys_;
  Completions found_;
};

/// An option, or its value after '='.
void offer_option(Completer& completer, const CommandHelp& command, const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return completer.offer_options(command);
  const Option* option = find_option(command, word.substr(0, equals));
  if (option != nullptr) completer.offer_values(*option, word.substr(0, equals + 1));
}

}  // namespace

Completions complete(const CommandHelp& program, const std::vector<RecipeKey>& keys,
                     const std::vector<std::string>& words) {
  const std::string& word = words.back();
  Completer completer(word, keys);
  const CommandHelp* command = &program;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const CommandHelp* below = find_command(*command, words[i]);
    if (below == nullptr) break;
    command = below;
  }
  if (command == &program) {
    if (words.size() == 1) completer.offer_commands(program);
    if (words.size() == 1 && word.starts_with('-')) completer.offer_options(program);
    command = find_command(program, "train");  // the default if no command is given
    if (words.size() == 1 && word.find_first_of("-.=") == std::string::npos) return completer.take_or_files();
  }
  const Option* before = words.size() > 1 ? find_option(*command, words[words.size() - 2]) : nullptr;
  if (before != nullptr && !before->value.empty()) {
    completer.offer_values(*before);
  } else if (word.starts_with('-')) {
    offer_option(completer, *command, word);
  } else {
    completer.offer_commands(*command);
    for (const Option& option : command->options) {
      if (option.names.empty()) completer.offer_values(option);
    }
  }
  return words.size() == 1 ? completer.take_or_files() : completer.take();
}

}  // namespace trainer
