// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <span>

#include "apps/trainer/commands.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "core/report/run_report.h"
#include "core/storage/output_file.h"

namespace trainer {

int report_command(const Arguments& arguments) {
  const RunOverview run = run_in(arguments.path);
  const std::filesystem::path path =
      arguments.out.empty() ? run.directory / "report.html" : std::filesystem::path(arguments.out);
  const OutputFile file(path);
  const std::string page = run_report(run);
  file.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(page))); });
  print_note(file, fmt::format("wrote {}", path.string()));
  return 0;
}

}  // namespace trainer
