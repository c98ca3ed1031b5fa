// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/trainer/command_help.h"
#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/version.h"

namespace trainer {
namespace {

/// Text escaped for roff: backslashes and hyphens are literal, and no line is a request.
std::string roff(const std::string& text) {
  std::string escaped;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) escaped += "\\&";
    at_start = c == '\n';
    if (c == '\\') {
      escaped += "\\e";
    } else {
      escaped += c == '-' ? std::string("\\-") : std::string(1, c);
    }
  }
  return escaped;
}

std::string bold(const std::string& text) {
  return "\\fB" + roff(text) + "\\fR";
}

/// Text that keeps its line breaks.
std::string unfilled(const std::string& text) {
  return text.empty() ? "" : ".PP\n.nf\n" + roff(text) + "\n.fi\n";
}

std::string option_text(const CommandHelp::Option& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  const std::string value = option.value.empty() ? "" : "\\fI" + roff(option.value) + "\\fR";
  const char* gap = names.empty() || value.empty() ? "" : " ";
  const char* more = option.repeats ? " ..." : "";
  return fmt::format(".TP\n{}{}{}{}\n{}{}\n", names, gap, value, more, roff(option.help),
                     option.is_required ? " (required)" : "");
}

std::string command_text(const CommandHelp& command, const std::string& path) {
  std::string text = fmt::format(".SS \"{}\"\n{}\n", roff(path), roff(command.help));
  for (const CommandHelp::Option& option : command.options) {
    // Every command has it: named once, with the program's.
    if (option.names.empty() || option.names[0] != "--help") text += option_text(option);
  }
  text += unfilled(command.footer);
  for (const CommandHelp& below : command.commands) text += command_text(below, path + " " + below.name);
  return text;
}

}  // namespace

std::string manual_page(const CommandHelp& program) {
  std::string text = fmt::format(".TH TRAINER 1 \"\" \"trainer {}\"\n", kVersion);
  text += ".SH NAME\ntrainer \\- trains neural networks from a YAML recipe\n";
  text += ".SH SYNOPSIS\n.nf\n";
  text += bold("trainer --config") + " \\fIFILE\\fR [\\fIKEY=VALUE\\fR ...]\n";
  text += bold("trainer") + " \\fICOMMAND\\fR [\\fIOPTION\\fR ...]\n.fi\n";
  text += ".SH DESCRIPTION\n" + roff(program.help) + "\n" + unfilled(program.footer);
  text += ".SH OPTIONS\n";
  for (const CommandHelp::Option& option : program.options) text += option_text(option);
  text += ".SH COMMANDS\n";
  for (const CommandHelp& command : program.commands)
    text += command_text(command, "trainer " + command.name);
  text += ".SH SEE ALSO\n" + bold("trainer schema --markdown") + " prints every key of a recipe, " +
          bold("trainer layers") + " everything it can use.\n";
  return text;
}

int man_command() {
  print_text("{}", manual_page(command_help()));
  return 0;
}

}  // namespace trainer
