// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "apps/trainer/batch_table.h"
#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "core/host/captured_output.h"
#include "core/host/children.h"
#include "core/session/membership.h"

namespace trainer {
namespace {

constexpr int kRounds = 3;

int measure_one(const Arguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  overrides.push_back(fmt::format("training.micro_batch_size={}", arguments.tune.only));
  const StopSignals signals(StopSignals::kPass);
  Progress progress({.fd = STDERR_FILENO, .terminal = Progress::for_terminal(STDERR_FILENO)});
  Log log(progress);
  const StepSpeed speed = measure_steps(Recipe::load(arguments.config, overrides), arguments.tune.seconds,
                                        open_to_train, signals, log);
  print_to_output(arguments.json ? to_line(speed) : speeds_text({speed}, {}));
  return 0;
}

/// The measurement of one micro-batch by a process of its own, which begins with as little memory as a run.
/// Nothing if its plan does not fit.
std::optional<StepSpeed> measure_in_child(const Arguments& arguments, int64_t size) {
  const CapturedOutput output, errors;
  std::vector<std::string> line = arguments.command_line;
  line.insert(line.end(), {"--only", std::to_string(size)});
  if (!arguments.json) line.emplace_back("--json");
  Children children(SIGTERM);
  children.start({.line = line, .output = output.descriptor(), .errors = errors.descriptor()});
  const int status = children.await_all(std::chrono::seconds(0)).front();
  if (children.were_asked()) throw Error(ExitCode::requeue, "stopped: nothing was written");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(ExitCode::internal);
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;  // by a kernel without memory
  if (was_killed || code == static_cast<int>(ExitCode::out_of_memory)) return std::nullopt;
  const std::optional<StepSpeed> speed = parse_speed(output.text());
  if (code == 0 && speed) return speed;
  print_remark(errors.text());
  throw Error(static_cast<ExitCode>(code == 0 ? static_cast<int>(ExitCode::internal) : code),
              fmt::format("micro-batch {} could not be measured", size));
}

/// Each round takes all sizes: a machine that becomes slower, or busy, slows all of them.
std::map<int64_t, std::vector<StepSpeed>> measure_in_turns(const Arguments& arguments,
                                                           std::vector<int64_t>& sizes,
                                                           std::vector<int64_t>& too_large) {
  std::map<int64_t, std::vector<StepSpeed>> measured;
  for (int round = 1; round <= kRounds; ++round) {
    for (const int64_t size : std::vector<int64_t>(sizes)) {
      print_remark(fmt::format("round {} of {}: micro-batch {}", round, kRounds, size));
      if (const std::optional<StepSpeed> speed = measure_in_child(arguments, size)) {
        measured[size].push_back(*speed);
      } else {
        too_large.push_back(size);
        std::erase(sizes, size);
        measured.erase(size);
      }
    }
  }
  return measured;
}

}  // namespace

int tune_batch_command(const Arguments& arguments) {
  require_one_process("tuning");
  if (arguments.tune.only > 0) return measure_one(arguments);
  const RunSpec spec(Recipe::load(arguments.config, arguments.overrides));
  std::vector<int64_t> sizes = spec.possible_micro_batches(), too_large;
  std::ranges::reverse(sizes);
  const std::map<int64_t, std::vector<StepSpeed>> measured = measure_in_turns(arguments, sizes, too_large);
  std::vector<StepSpeed> speeds;
  for (const auto& [size, rounds] : measured) speeds.push_back(median_speed(rounds));
  if (speeds.empty())
    throw Error(ExitCode::out_of_memory, "no micro-batch fits into memory; see `trainer plan`");
  print_to_output(arguments.json ? speeds_json(speeds, too_large) : speeds_text(speeds, too_large));
  return 0;
}

}  // namespace trainer
