// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>
#include <execinfo.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <typeinfo>

#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/host/exit_report.h"
#include "core/host/processors.h"
#include "core/ranks/launch.h"
#include "cpu/backend.h"

namespace trainer {
namespace {

int run(int argc, char** argv) {
  if (!is_bound_since_start()) spin_briefly(argv);
  reserve_standard_streams();
  const std::optional<Arguments> arguments = read_arguments(argc, argv);
  if (!arguments) return 0;
  switch (arguments->command) {
    case Arguments::Command::train:
      return train_command(*arguments);
    case Arguments::Command::init:
      return init_command(*arguments);
    case Arguments::Command::eval:
      return eval_command(*arguments);
    case Arguments::Command::predict:
      return predict_command(*arguments);
    case Arguments::Command::generate:
      return generate_command(*arguments);
    case Arguments::Command::export_network:
      return export_command(*arguments);
    case Arguments::Command::quantize:
      return quantize_command(*arguments);
    case Arguments::Command::prune:
      return prune_command(*arguments);
    case Arguments::Command::plan:
      return plan_command(*arguments);
    case Arguments::Command::time:
      return time_command(*arguments);
    case Arguments::Command::tune_lr:
      return tune_lr_command(*arguments);
    case Arguments::Command::tune_batch:
      return tune_batch_command(*arguments);
    case Arguments::Command::sweep:
      return sweep_command(*arguments);
    case Arguments::Command::slurm:
      return slurm_command(*arguments);
    case Arguments::Command::layers:
      return layers_command(*arguments);
    case Arguments::Command::data_stats:
      return data_stats_command(*arguments);
    case Arguments::Command::data_check:
      return data_check_command(*arguments);
    case Arguments::Command::data_pack:
      return data_pack_command(*arguments);
    case Arguments::Command::data_tokenize:
      return data_tokenize_command(*arguments);
    case Arguments::Command::schema:
      return schema_command(*arguments);
    case Arguments::Command::doctor:
      return doctor_command(*arguments);
    case Arguments::Command::import_weights:
      return import_command(*arguments);
    case Arguments::Command::inspect:
      return inspect_command(*arguments);
    case Arguments::Command::runs:
      return runs_command(*arguments);
    case Arguments::Command::compare:
      return compare_command(*arguments);
    case Arguments::Command::report:
      return report_command(*arguments);
    case Arguments::Command::watch:
      return watch_command(*arguments);
    case Arguments::Command::track:
      return track_command(*arguments);
    case Arguments::Command::completion:
      return completion_command(*arguments);
    case Arguments::Command::man:
      return man_command();
  }
  return 0;
}

/// The exit code; every error is printed.
int run_and_report(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& problem) {
  const Failure failure = failure_of(problem);
  print_error(failure.text);
  return static_cast<int>(failure.code);
}

/// The OpenMP library ends the process with exit code 1 if it cannot start a thread. Nothing else does.
void name_lack_of_threads(int status, void* /*unused*/) {
  if (status != EXIT_FAILURE) return;
  print_error(failure_of(std::system_error(EAGAIN, std::generic_category())).text);
  ::_exit(static_cast<int>(ExitCode::out_of_memory));
}

/// Prints a line without allocating memory; returns the exit code.
int report_lack_of_memory(std::string_view line) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  return static_cast<int>(ExitCode::out_of_memory);
}

/// Exceptions that a library throws before main end here.
[[noreturn]] void end_start() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr || *type != typeid(std::bad_alloc)) std::abort();
  ::_exit(report_lack_of_memory("trainer: error: not enough memory for the program's libraries to start\n"));
}

/// An exception that passes through the C library was thrown through oneDNN. To unwind it the C library loads
/// another library, which fails without memory.
void prepare_to_throw() {
  void* here = nullptr;
  ::backtrace(&here, 1);
}

void expect_failing_libraries() {
  std::set_terminate(end_start);
}

}  // namespace
}  // namespace trainer

/// Runs before any library starts.
__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeLibraries)() = trainer::expect_failing_libraries;

int main(int argc, char** argv) {
  std::set_terminate(std::abort);
  ::on_exit(trainer::name_lack_of_threads, nullptr);
  // A limit of file sizes makes writing fail, as a full disk does.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    trainer::report_end_to_launcher();
    trainer::prepare_to_throw();
    const int code = trainer::finish_output(trainer::run_and_report(argc, argv));
    trainer::report_exit_code(code);
    return code;
  } catch (const std::bad_alloc&) {
    return trainer::report_lack_of_memory("trainer: error: out of memory\n");  // if a message got none
  }
}
