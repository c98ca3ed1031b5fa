// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/trainer/commands.h"
#include "apps/trainer/run_comparison.h"
#include "apps/trainer/run_table.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

Json json_of(const std::vector<ListedRun>& runs, const std::filesystem::path& root) {
  std::vector<Settings> settings;
  for (const ListedRun& run : runs) settings.push_back(run.settings);
  const std::vector<std::string> keys = differing_keys(settings);
  Json all = Json::array();
  for (const ListedRun& run : runs) {
    Json json = overview_json(run.overview, name_of(run.overview, root));
    Json differing = Json::object();
    for (const std::string& key : keys)
      if (const auto found = run.settings.find(key); found != run.settings.end())
        differing[key] = setting_json(found->second);
    if (!keys.empty()) json["settings"] = differing;
    all.push_back(json);
  }
  return all;
}

ListedRun run_at(const std::string& path) {
  return {run_in(path), read_settings(path)};
}

void warn_of(const RunOverview& run) {
  for (const std::string& problem : run.problems) print_warning(problem);
}

/// A path need not be UTF-8, JSON must.
void print_json(const Json& json) {
  print_text("{}\n", json.dump(2, Json::NotUtf8::replace));
}

}  // namespace

int runs_command(const Arguments& arguments) {
  const std::filesystem::path root = arguments.path.empty() ? "runs" : arguments.path;
  std::vector<ListedRun> runs = list_runs_with_settings(root);
  sort_runs(runs, arguments.sort.empty() ? "age" : arguments.sort);
  if (arguments.json) {
    print_json(json_of(runs, root));
  } else if (runs.empty()) {
    print_text("no runs below {}\n", one_line(root.string()));
  } else {
    print_run_table(runs, root);
  }
  for (const ListedRun& run : runs) warn_of(run.overview);
  return 0;
}

int compare_command(const Arguments& arguments) {
  std::vector<ListedRun> runs;
  for (const std::string& path : arguments.inputs) runs.push_back(run_at(path));
  if (arguments.json) {
    print_json(comparison_json(runs, arguments.all));
  } else {
    print_comparison(runs, arguments.all);
  }
  for (const ListedRun& run : runs) warn_of(run.overview);
  return 0;
}

}  // namespace trainer
