// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
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
#include "core/storage/atomic_file.h"
#include "core/storage/output_file.h"

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

/// The default path: within the only directory given, or in the working directory if there are several.
std::filesystem::path usual_path(const std::vector<std::string>& directories,
                                 const std::vector<ListedRun>& runs) {
  constexpr const char* kName = "report.html";
  if (runs.size() == 1) return runs[0].overview.directory / kName;
  return directories.size() == 1 ? std::filesystem::path(directories[0]) / kName
                                 : std::filesystem::path(kName);
}

}  // namespace

int report_command(const Arguments& arguments) {
  const std::vector<ListedRun> runs = runs_in(arguments.inputs);
  const bool is_usual = arguments.out.empty();
  const std::filesystem::path path =
      is_usual ? usual_path(arguments.inputs, runs) : std::filesystem::path(arguments.out);
  if (is_usual) require_regular(path, Links::refuse);
  const OutputFile file(path);
  const std::string page = page_of(runs);
  if (is_usual) {
    write_atomically(path, page);
  } else {
    file.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(page))); });
  }
  for (const ListedRun& run : runs)
    for (const std::string& problem : run.overview.problems) print_warning(problem);
  print_note(file, fmt::format("wrote {}", one_line(path.string())));
  return 0;
}

}  // namespace trainer
