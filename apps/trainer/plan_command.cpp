// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "apps/trainer/commands.h"
#include "apps/trainer/device_table.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/loading_report.h"
#include "apps/trainer/plan_report.h"
#include "apps/trainer/scaling_table.h"
#include "apps/trainer/standard_streams.h"
#include "core/recipe/memory_fit.h"
#include "core/run/int8_weights.h"
#include "core/session/device.h"
#include "core/session/membership.h"

namespace trainer {
namespace {

constexpr const char* kAfter = "program:after=";

/// Remembers the program as it was after one pass, or the last.
class Snapshot {
 public:
  explicit Snapshot(std::string pass) : pass_(std::move(pass)) {}

  void observe(const std::string& pass, const Program& program) {
    if (pass == "forward") names_.clear();  // if several micro-batches are tried, the last one counts
    names_.push_back(pass);
    if (pass_.empty() || pass == pass_) text_ = to_text(program);
  }

  const std::string& text() const {
    if (text_.empty()) {
      throw Error(ExitCode::usage,
                  fmt::format("unknown pass '{}'; passes: {}", pass_, fmt::join(names_, ", ")));
    }
    return text_;
  }

 private:
  std::string pass_, text_;
  std::vector<std::string> names_;
};

std::string pass_to_dump(const std::string& dump) {
  if (dump == "program" || dump == "plan") return "";
  if (dump.starts_with(kAfter)) return dump.substr(std::string(kAfter).size());
  throw Error(ExitCode::usage,
              fmt::format("--dump takes program, program:after=PASS or plan, got '{}'", dump));
}

}  // namespace

int plan_command(const Arguments& arguments) {
  if (!arguments.devices.empty() && !arguments.dump_config) {
    print_device_table(arguments);
    return 0;
  }
  if (!arguments.ranks.empty() && !arguments.dump_config) {
    print_scaling_table(arguments);
    return 0;
  }
  if (!arguments.measured.empty() && arguments.ranks.empty() && arguments.devices.empty())
    throw Error(ExitCode::usage, "--measured needs --devices or --ranks");
  const std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  if (arguments.dump_config) {
    print_to_output(recipe->to_yaml(true));
    return 0;
  }
  const RunSpec spec = planned_spec(recipe);
  Snapshot snapshot(arguments.dump ? pass_to_dump(*arguments.dump) : "");
  Tuning tuning = earlier_tuning(spec);
  DeviceChoice choice = choose_device(recipe->device);
  if (recipe->device.threads == 0) choice.threads = shared_by(spec.ranks(), choice.threads);
  const Backend backend = open_device(spec, tuning, choice, Use::plan);
  Planner& planner = *backend.planner;
  // Only a plan determines which micro-batch fits.
  const bool plan = !arguments.dump || *arguments.dump == "plan" || spec.searches_micro_batch();
  if (plan) set_precision(spec, planner);
  const auto int8 = int8_network_named(recipe->run.resume_path());
  const Job job = make_fitting_job(
      spec, planner,
      {.disabled_passes = arguments.disabled_passes,
       .observe = [&](const std::string& pass, const Program& program) { snapshot.observe(pass, program); },
       .plan = plan,
       .use = {.purpose = int8 == nullptr ? Purpose::train : Purpose::predict},
       .int8 = int8});
  for (const auto& [key, file] : missing_data(*recipe)) {
    print_warning(fmt::format("there is no file {}: steps and the samples' memory are unknown", file));
  }
  const std::string slow = arguments.dump ? "" : loading_warning(planner, job, arguments);
  if (!slow.empty()) print_warning(slow);
  if (arguments.dump) {
    print_to_output(*arguments.dump == "plan" ? to_text(job.plan, planner.rates()) : snapshot.text());
  } else {
    print_to_output(arguments.json ? plan_json(planner, job, arguments) : plan_text(planner, job, arguments));
  }
  return 0;
}

}  // namespace trainer
