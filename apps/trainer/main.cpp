// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>

#include "apps/trainer/commands.h"
#include "core/base/error.h"

namespace trainer {
namespace {

int run(int argc, const char* const* argv) {
  const std::optional<Arguments> arguments = read_arguments(argc, argv);
  if (!arguments) return 0;
  switch (arguments->command) {
    case Arguments::Command::train:
      return train_command(*arguments);
    case Arguments::Command::eval:
      return eval_command(*arguments);
    case Arguments::Command::predict:
      return predict_command(*arguments);
    case Arguments::Command::plan:
      return plan_command(*arguments);
    case Arguments::Command::layers:
      return layers_command();
    case Arguments::Command::data_stats:
      return data_stats_command(*arguments);
    case Arguments::Command::data_pack:
      return data_pack_command(*arguments);
    case Arguments::Command::schema:
      return schema_command(*arguments);
    case Arguments::Command::doctor:
      return doctor_command(*arguments);
    case Arguments::Command::inspect:
      return inspect_command(*arguments);
    case Arguments::Command::runs:
      return runs_command(*arguments);
  }
  return 0;
}

/// Located problems say "error:" themselves.
void print_error(const std::string& text) {
  const bool located = text.find(": error: ") != std::string::npos || text.starts_with("error: ");
  fmt::print(stderr, "{}{}\n", located ? "" : "trainer: error: ", text);
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) {
  using trainer::ExitCode;
  try {
    return trainer::run(argc, argv);
  } catch (const trainer::Error& error) {
    trainer::print_error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    trainer::print_error("out of memory; see `trainer plan` for what the run needs");
    return static_cast<int>(ExitCode::out_of_memory);
  } catch (const std::exception& error) {
    trainer::print_error(fmt::format("internal error: {}", error.what()));
    return static_cast<int>(ExitCode::internal);
  }
}
