// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <span>

#include "apps/trainer/commands.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/report/run_report.h"
#include "core/storage/atomic_file.h"
#include "core/storage/output_file.h"

namespace trainer {

int report_command(const Arguments& arguments) {
  const RunOverview run = run_in(arguments.path);
  const bool is_in_run = arguments.out.empty();
  const std::filesystem::path path =
      is_in_run ? run.directory / "report.html" : std::filesystem::path(arguments.out);
  if (is_in_run) require_regular(path, Links::refuse);
  const OutputFile file(path);
  const std::string page = run_report(run);
  if (is_in_run) {
    write_atomically(path, page);
  } else {
    file.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(page))); });
  }
  for (const std::string& problem : run.problems) print_warning(problem);
  print_note(file, fmt::format("wrote {}", one_line(path.string())));
  return 0;
}

}  // namespace trainer
