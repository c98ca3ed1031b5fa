// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/host/stop.h"
#include "core/session/tracking.h"
#include "core/track/address.h"
#include "core/track/mlflow_sender.h"

namespace trainer {
namespace {

constexpr StopSignals::Texts kStopped{"stopped: call `trainer track` again for the rest",
                                      "call `trainer track` again for the rest"};

/// The server may have another address by now.
void apply(const std::vector<std::string>& overrides, Settings& settings) {
  for (const std::string& word : overrides) {
    const size_t sign = word.find('=');
    const std::string key = word.substr(0, sign);
    if (sign == std::string::npos || (key != kMlflowUri && key != kMlflowExperiment))
      throw Error(ExitCode::usage, fmt::format("'{}': expected {}=ADDRESS or {}=NAME", one_line(word),
                                               kMlflowUri, kMlflowExperiment));
    const std::string value = word.substr(sign + 1);
    if (value.find_first_not_of(" \t") == std::string::npos)
      throw Error(ExitCode::usage, fmt::format("{}: expected a value after the equals sign", key));
    settings[key] = Json(value).dump();  // YAML in quotation marks
  }
}

}  // namespace

int track_command(const Arguments& arguments) {
  const StopSignals signals(kStopped);
  ListedRun run = with_settings(run_in(arguments.path));
  apply(arguments.overrides, run.settings);
  const TrackedRun tracked = tracked_run(arguments.path, run.settings);
  const std::string place = one_line(arguments.path);
  const auto written = write_wandb(arguments.path, run.settings, run.overview.state);
  if (written) print_text("wrote {0}; `wandb sync {0}` sends it\n", one_line(written->string()));
  if (written && tracked.uri.empty()) return 0;
  if (tracked.uri.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("{}: the run's recipe names no tracker; name one: trainer track {} "
                            "logging.mlflow.uri=http://localhost:5000",
                            place, place));
  }
  if (const std::string problem = address_problem(tracked.uri); !problem.empty())
    throw Error(ExitCode::usage, problem);
  HttpClient http(credentials_from_environment(), [] { return false; });
  MlflowSender sender(tracked, http, print_warning);
  while (sender.advance()) {
  }
  sender.finish(mlflow_status(run.overview.state));
  print_text("{} has all metrics of {}\n", one_line(tracked.uri), place);
  return 0;
}

}  // namespace trainer
