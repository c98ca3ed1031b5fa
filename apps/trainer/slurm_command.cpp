// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "apps/trainer/commands.h"
#include "apps/trainer/slurm_scripts.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/messages.h"
#include "core/host/slurm.h"
#include "core/ranks/launcher.h"
#include "core/recipe/job.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The lines after a script's header of #SBATCH lines, without those that start another script.
std::string body_of(const std::string& script) {
  const size_t last = script.rfind("\n#SBATCH");
  std::istringstream lines(script.substr(script.find('\n', last + 1) + 1));
  std::string body;
  for (std::string line; std::getline(lines, line);) {
    const bool is_first = body.empty() && line.empty();
    if (!is_first && line.find("TRAIN_ONE") == std::string::npos) body += line + "\n";
  }
  return body;
}

/// A word of a shell, as it is.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char each : text) word += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return word + "'";
}

/// This program, for a job: its name where PATH leads to it.
std::string program_word(const Arguments& arguments) {
  const fs::path self = arguments.command_line.front();
  std::error_code unknown;
  const bool is_in_path = fs::equivalent(path_of_program("trainer"), self, unknown);
  return is_in_path && !unknown ? "trainer" : quoted(self.string());
}

/// For an #SBATCH line, which ends with its line and is no shell's.
void require_word(const char* option, const std::string& text) {
  const bool is_word =
      std::ranges::none_of(text, [](unsigned char each) { return each <= ' ' || each == 127; });
  if (!is_word)
    throw Error(ExitCode::usage, fmt::format("{} {}: expected a word without spaces", option, shown(text)));
}

/// Seconds. sbatch also takes plain minutes.
int64_t seconds_of(const std::string& time) {
  constexpr int64_t kMost = 10 * 365 * 24 * 60;
  int64_t minutes = 0;
  const char* const end = time.data() + time.size();
  const auto [stop, status] = std::from_chars(time.data(), end, minutes);
  if (status == std::errc{} && stop == end && minutes > 0 && minutes <= kMost) return minutes * 60;
  const std::optional<TimeSpan> span = parse_slurm_time(time);
  if (span && span->seconds > 0) return span->seconds;
  throw Error(
      ExitCode::usage,
      fmt::format("--time {}: expected a limit such as 4:00:00, 1-12:00:00 or 90 (minutes)", shown(time)));
}

/// How long before the limit Slurm asks for a save: a long step and three saves must fit, and a short job
/// must not spend its time on them.
int64_t warning_seconds(int64_t limit) {
  constexpr int64_t kShortest = 300;
  if (limit < kShortest)
    throw Error(ExitCode::usage,
                "--time: a job needs at least 5 minutes: Slurm sends its signal to save up to two minutes "
                "before the end");
  constexpr int64_t kUsual = 180, kLeast = 70;  // Slurm may be a minute early
  return std::clamp(limit / 10, kLeast, kUsual);
}

std::string header(const SlurmArguments& job, int64_t tasks, const std::string& name) {
  std::string text;
  const auto add = [&](const std::string& option) { text += "#SBATCH " + option + "\n"; };
  add("--job-name=" + name);
  add(fmt::format("--nodes={}", job.nodes));
  add(fmt::format("--ntasks-per-node={}", tasks));
  add(fmt::format("--cpus-per-task={}", job.cpus_per_task));
  if (job.gpus_per_node > 0) add(fmt::format("--gpus-per-node={}", job.gpus_per_node));
  if (!job.memory.empty()) add("--mem=" + job.memory);
  if (!job.partition.empty()) add("--partition=" + job.partition);
  if (!job.account.empty()) add("--account=" + job.account);
  add("--time=" + job.time);
  add(fmt::format("--signal=B:USR1@{}", warning_seconds(seconds_of(job.time))));
  add("--requeue");
  add("--open-mode=append");
  add("--output=%x-%j.log");
  return text;
}

/// Throws Error (exit 78) if that many ranks cannot share the recipe's run.
void require_shared(const std::shared_ptr<const Recipe>& recipe, int64_t ranks, int64_t on_host) {
  if (ranks > 1) check_network(RunSpec(recipe, {.rank = 0, .ranks = ranks}, on_host));
}

}  // namespace

int slurm_command(const Arguments& arguments) {
  const SlurmArguments& job = arguments.slurm;
  const auto recipe = Recipe::load(arguments.config, arguments.overrides);
  require_word("--partition", job.partition);
  require_word("--account", job.account);
  require_word("--mem", job.memory);
  require_word("--time", job.time);
  const int64_t tasks = job.tasks_per_node > 0 ? job.tasks_per_node : std::max<int64_t>(job.gpus_per_node, 1);
  const int64_t ranks = job.nodes * tasks;
  if (job.gpus_per_node == 0 && recipe->device.type == "cuda")
    fail_at(recipe->origin_of("device.type"), "cuda needs GPUs in the job: give --gpus-per-node");
  require_shared(recipe, ranks, tasks);

  std::string name = recipe->run.name;
  for (char& each : name) {
    if (std::isalnum(static_cast<unsigned char>(each)) == 0 && each != '-' && each != '.') each = '_';
  }
  std::string text = fmt::format(
      "#!/bin/bash\n"
      "# {} on {} node{}: sbatch THIS_FILE [KEY=VALUE...]\n"
      "# A job that must end early is saved, queued again and resumed, until the run is finished.\n{}\n",
      name, job.nodes, job.nodes == 1 ? "" : "s", header(job, tasks, name));
  text += fmt::format("TRAINER=${{TRAINER:-{}}}\nRECIPE=${{RECIPE:-{}}}\n", program_word(arguments),
                      quoted(fs::absolute(arguments.config).lexically_normal().string()));
  if (!arguments.overrides.empty()) {
    text += "set --";
    for (const std::string& each : arguments.overrides) text += " " + quoted(each);
    text += " \"$@\"\n";
  }
  text += "\n";
  if (ranks > 1) text += body_of(job.gpus_per_node > 0 ? kTrainNcclScript : kTrainMpiScript) + "\n";
  text += body_of(kTrainScript);
  print_to_output(text);
  return 0;
}

}  // namespace trainer
