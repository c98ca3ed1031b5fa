// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/command_help.h"

#include <CLI/CLI.hpp>

#include "apps/trainer/arguments.h"

namespace trainer {
namespace {

CommandHelp::Option help_of(const CLI::Option& option) {
  CommandHelp::Option help{.help = option.get_description(), .is_required = option.get_required()};
  for (const std::string& name : option.get_lnames()) help.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
  const bool is_flag = option.get_items_expected_max() == 0;
  if (!is_flag) help.value = option.get_type_name();
  help.repeats = option.get_items_expected_max() > 1;
  return help;
}

CommandHelp help_of(const CLI::App& command) {
  CommandHelp help{
      .name = command.get_name(), .help = command.get_description(), .footer = command.get_footer()};
  for (const CLI::Option* option : command.get_options()) help.options.push_back(help_of(*option));
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    help.commands.push_back(help_of(*below));
  return help;
}

}  // namespace

CommandHelp command_help() {
  Arguments unused;
  CLI::App app;
  declare_commands(app, unused);
  return help_of(app);
}

}  // namespace trainer
