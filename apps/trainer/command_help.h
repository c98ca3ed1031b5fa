// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// The `--help` text of a command, for the manual page and for shell completion.
struct CommandHelp {
  /// An option, or, without names, a positional argument.
  struct Option {
    std::vector<std::string> names;  ///< "--config", "-c"
    std::string value;               ///< "FILE", "N", "train|val"; empty for a flag
    std::string help;
    bool is_required = false, repeats = false;
  };

  std::string name, help, footer;
  std::vector<Option> options;
  std::vector<CommandHelp> commands;  ///< its subcommands
};

/// The program itself. Its subcommands are the commands.
CommandHelp command_help();

/// The manual page, in roff.
std::string manual_page(const CommandHelp& program);

}  // namespace trainer
