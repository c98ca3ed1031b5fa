// SPDX-License-Identifier: Apache-2.0
#include "core/host/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <string>

#include "core/host/child_process.h"

namespace trainer {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// For squeue: the plain number of an array's last task is that of the whole array.
std::string job_id() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID");
  return array.empty() || task.empty() ? variable("SLURM_JOB_ID") : array + "_" + task;
}

/// All of `text` as a number; nothing if it is not a number or has more than nine digits.
std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  if (text.empty() || text.size() > 9 || text.front() == '-') return std::nullopt;
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc{} || stop != end) return std::nullopt;
  return value;
}

/// The number of a variable, if it is above 0.
std::optional<int64_t> count_in(const char* name) {
  const std::optional<int64_t> count = number(variable(name));
  return count.value_or(0) > 0 ? count : std::nullopt;
}

/// "4096" or "4096M" are mebibytes; K, G and T are the other units.
std::optional<int64_t> bytes_in(const char* name) {
  constexpr std::string_view kUnits = "KMGT";
  std::string text = variable(name);
  size_t unit = kUnits.find('M');
  if (!text.empty() && kUnits.find(text.back()) != std::string_view::npos) {
    unit = kUnits.find(text.back());
    text.pop_back();
  }
  const std::optional<int64_t> count = number(text);
  if (count.value_or(0) <= 0) return std::nullopt;
  return product_or_most(*count, int64_t{1024} << (10 * unit));
}

/// Removes and returns the text before the first `mark`; nothing if `mark` does not occur.
std::optional<std::string_view> take_before(std::string_view& text, char mark) {
  const size_t place = text.find(mark);
  if (place == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, place);
  text.remove_prefix(place + 1);
  return taken;
}

/// Of later releases, and if squeue is out of reach, as in a container.
std::optional<TimeSpan> until_job_end() {
  const std::string text = variable("SLURM_JOB_END_TIME");
  int64_t end = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), end);
  if (text.empty() || status != std::errc{} || *stop != '\0') return std::nullopt;
  return TimeSpan{std::max<int64_t>(end - static_cast<int64_t>(std::time(nullptr)), 0)};
}

}  // namespace

std::optional<TimeSpan> parse_slurm_time(std::string_view text) {
  int64_t seconds = 0;
  if (const auto days = take_before(text, '-')) {
    const auto count = number(*days);
    if (!count || std::count(text.begin(), text.end(), ':') != 2) return std::nullopt;
    seconds = *count * 24;
  }
  int parts = 1;
  for (auto part = take_before(text, ':'); part; part = take_before(text, ':'), ++parts) {
    const auto count = number(*part);
    if (!count) return std::nullopt;
    seconds = (seconds + *count) * 60;
  }
  const auto last = number(text);
  if (!last || parts < 2 || parts > 3) return std::nullopt;
  return TimeSpan{seconds + *last};
}

bool slurm_has_restarted() {
  return !job_id().empty() && number(variable("SLURM_RESTART_COUNT")).value_or(0) > 0;
}

SlurmLimits slurm_limits() {
  if (job_id().empty()) return {};
  SlurmLimits limits{.memory = bytes_in("SLURM_MEM_PER_NODE"),
                     .memory_name = "SLURM_MEM_PER_NODE",
                     .cpus_per_task = count_in("SLURM_CPUS_PER_TASK"),
                     .cpus_on_node = count_in("SLURM_CPUS_ON_NODE")};
  const std::optional<int64_t> of_cpu = bytes_in("SLURM_MEM_PER_CPU");
  if (limits.memory || !of_cpu || !limits.cpus_on_node) return limits;
  limits.memory = product_or_most(*of_cpu, *limits.cpus_on_node);
  limits.memory_name = "SLURM_MEM_PER_CPU";
  return limits;
}

std::optional<TimeSpan> slurm_time_left(Log& log, std::chrono::milliseconds patience) {
  const std::string job = job_id();
  if (job.empty()) return std::nullopt;
  const CommandOutput answer = run_command({"squeue", "-h", "-j", job, "-o", "%L"}, patience);
  const std::string said = answer.text.substr(0, answer.text.find('\n'));
  const bool is_answer = answer.problem.empty();
  std::optional<TimeSpan> left = is_answer ? parse_slurm_time(said) : std::nullopt;
  if (is_answer && (said == "UNLIMITED" || said == "NOT_SET")) {
    log.info(fmt::format("Slurm job {} has no time limit", job));
    return std::nullopt;
  }
  if (!left) left = until_job_end();
  if (left) {
    log.info(fmt::format("Slurm ends job {} in {}; the run will be saved before", job,
                         human_seconds(static_cast<double>(left->seconds))));
    return left;
  }
  log.warn(
      fmt::format("the remaining time of Slurm job {} is unknown ({}): set run.max_wall_time, otherwise only "
                  "the last checkpoint remains",
                  job, is_answer ? fmt::format("squeue printed \"{}\"", said) : answer.problem));
  return std::nullopt;
}

}  // namespace trainer
