// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// What `--help` prints of a command, for the manual page and for shells that complete it.
struct CommandHelp {
  /// An option, or, without names, what stands without an option.
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
