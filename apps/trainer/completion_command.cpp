// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/trainer/commands.h"
#include "apps/trainer/completion.h"
#include "apps/trainer/standard_streams.h"

namespace trainer {
namespace {

// Each script calls `trainer completion words -- WORD...`. The first line of the output says which paths to
// offer; each other line is a word, a tab and its help.

constexpr const char* kBash = R"script(# Completes trainer's commands in bash.
_trainer() {
  local i part last word words=() lines=()
  # Bash splits words at '=' and ':'; the program takes section.key=value whole.
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    part=${COMP_WORDS[i]} last=${COMP_WORDS[i - 1]}
    if ((i > 1)) && [[ $part == [=:] || $last == [=:] ]]; then words[-1]+=$part; else words+=("$part"); fi
  done
  [[ $part == [=:] ]] && part=
  local before=${words[-1]%"$part"}
  mapfile -t lines < <("${1/#\~/$HOME}" completion words -- "${words[@]}" 2>/dev/null)
  COMPREPLY=()
  for word in "${lines[@]:1}"; do
    word=${word%%$'\t'*}
    COMPREPLY+=("${word#"$before"}")
    [[ $word != *[=.] ]] || compopt -o nospace 2>/dev/null
  done
  local paths=()
  case ${lines[0]} in
    files) mapfile -t paths < <(compgen -f -- "$part") ;;
    directories) mapfile -t paths < <(compgen -d -- "$part") ;;
  esac
  # It also escapes: only where all are paths.
  ((${#COMPREPLY[@]})) || compopt -o filenames 2>/dev/null
  COMPREPLY+=("${paths[@]}")
}
complete -F _trainer trainer
)script";

constexpr const char* kZsh = R"script(#compdef trainer
# Completes trainer's commands in zsh.
_trainer() {
  local line word help
  local -a lines closed open
  lines=("${(@f)$(${~words[1]} completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${(@)lines[2,-1]}"; do
    word=${line%%$'\t'*} help=${line#*$'\t'}
    word=${word//:/\\:}
    if [[ $word == *[=.] ]]; then open+=("$word:$help"); else closed+=("$word:$help"); fi
  done
  (( $#closed )) && _describe trainer closed
  (( $#open )) && _describe trainer open -S ''
  case $lines[1] in
    files) compset -P '*='; _files ;;
    directories) compset -P '*='; _files -/ ;;
  esac
}
if [[ $funcstack[1] == _trainer ]]; then _trainer "$@"; else compdef _trainer trainer; fi
)script";

constexpr const char* kFish = R"script(# Completes trainer's commands in fish.
function __trainer_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    set -l lines (command $before[1] completion words -- $before[2..] "$word" 2>/dev/null)
    string join \n -- $lines[2..]
    switch "$lines[1]"
        case files
            __fish_complete_path "$word"
        case directories
            __fish_complete_directories "$word"
    end
end
complete -c trainer -f -a '(__trainer_complete)'
)script";

void print_words(const std::vector<std::string>& words) {
  const Completions found =
      complete(command_help(), recipe_keys(), words.empty() ? std::vector<std::string>{""} : words);
  using Paths = Completions::Paths;
  print_text("{}\n", found.paths == Paths::files         ? "files"
                     : found.paths == Paths::directories ? "directories"
                                                         : "none");
  for (const Completions::Word& word : found.words) print_text("{}\t{}\n", word.text, word.help);
}

}  // namespace

int completion_command(const Arguments& arguments) {
  if (arguments.completed == "words") {
    print_words(arguments.inputs);
  } else {
    const bool is_bash = arguments.completed == "bash", is_zsh = arguments.completed == "zsh";
    print_text("{}", is_bash ? kBash : is_zsh ? kZsh : kFish);
  }
  return 0;
}

}  // namespace trainer
