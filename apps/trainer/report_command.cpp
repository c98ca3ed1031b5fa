// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>

#include "apps/trainer/commands.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/recipe/changed.h"
#include "core/report/run_report.h"
#include "core/report/sweep_report.h"
#include "core/storage/atomic_file.h"
#include "core/storage/output_file.h"
#include "core/sweep/sweep_directory.h"

namespace trainer {

namespace {

/// The runs that are named, each by its directory or by one above it.
std::vector<ListedRun> runs_in(const std::vector<std::string>& directories) {
  std::vector<ListedRun> runs;
  for (const std::string& directory : directories) {
    if (std::optional<RunOverview> run = look_at_run(directory)) {
      runs.push_back(with_settings(std::move(*run)));
      continue;
    }
    std::error_code ignored;
    std::vector<ListedRun> below;
    if (std::filesystem::is_directory(directory, ignored)) below = list_runs_with_settings(directory);
    if (below.empty()) static_cast<void>(run_in(directory));  // throws
    std::ranges::move(below, std::back_inserter(runs));
  }
  return runs;
}

std::string page_of(const std::vector<ListedRun>& runs) {
  std::vector<ReportedRun> reported;
  for (const ListedRun& run : runs)
    reported.push_back({run.overview, run.settings, changed_settings(run.settings)});
  return reported.size() == 1 ? run_report(reported[0]) : runs_report(reported);
}

constexpr const char* kReportFile = "report.html";

/// The default path: within the only directory given, or in the working directory if there are several.
std::filesystem::path usual_path(const std::vector<std::string>& directories,
                                 const std::vector<ListedRun>& runs) {
  if (runs.size() == 1) return runs[0].overview.directory / kReportFile;
  return directories.size() == 1 ? std::filesystem::path(directories[0]) / kReportFile
                                 : std::filesystem::path(kReportFile);
}

/// Writes the page to --output, or else to this path. Mistakes in the paths are found before it is made.
void write_page(const Arguments& arguments, const std::filesystem::path& usual,
                const std::function<std::string()>& make) {
  const bool is_usual = arguments.out.empty();
  const std::filesystem::path path = is_usual ? usual : std::filesystem::path(arguments.out);
  if (is_usual) require_regular(path, Links::refuse);
  const OutputFile file(path);
  const std::string page = make();
  if (is_usual) {
    write_atomically(path, page);
  } else {
    file.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(page))); });
  }
  print_note(file, fmt::format("wrote {}", one_line(path.string())));
}

/// Of a sweep, if that is the only directory given.
bool reports_sweep(const Arguments& arguments) {
  const std::vector<std::string>& given = arguments.inputs;
  if (given.size() != 1) return false;
  const std::filesystem::path directory = given[0];
  const std::optional<SweepPlan> sweep = sweep_in(directory);
  if (!sweep) return false;
  const TrialRecords records = read_trials(directory, *sweep, print_warning);
  write_page(arguments, directory / kReportFile, [&] { return sweep_report(*sweep, directory, records); });
  return true;
}

}  // namespace

int report_command(const Arguments& arguments) {
  if (reports_sweep(arguments)) return 0;
  const std::vector<ListedRun> runs = runs_in(arguments.inputs);
  for (const ListedRun& run : runs)
    for (const std::string& problem : run.overview.problems) print_warning(problem);
  write_page(arguments, usual_path(arguments.inputs, runs), [&] { return page_of(runs); });
  return 0;
}

}  // namespace trainer
