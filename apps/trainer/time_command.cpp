// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/measured_time.h"
#include "apps/trainer/standard_streams.h"
#include "core/host/stop.h"
#include "core/recipe/memory_fit.h"
#include "core/run/int8_weights.h"
#include "core/session/device.h"
#include "core/session/membership.h"

namespace trainer {
namespace {

Purpose purpose_of(const std::string& name) {
  if (name == "predict") return Purpose::predict;
  return name == "generate" ? Purpose::generate : Purpose::train;
}

/// The recipe; to train with `batch` samples a step, if that is given.
std::shared_ptr<const Recipe> timed_recipe(const Arguments& arguments, std::optional<int64_t> batch) {
  std::vector<std::string> overrides = arguments.overrides;
  if (batch && purpose_of(arguments.timing.purpose) == Purpose::train) {
    overrides.push_back(fmt::format("training.global_batch_size={}", *batch));
    // At once, unless the command line says otherwise.
    const auto divides = [](const std::string& key) { return key.starts_with("training.micro_batch_size="); };
    if (std::ranges::none_of(overrides, divides))
      overrides.push_back(fmt::format("training.micro_batch_size={}", *batch));
  }
  return Recipe::load(arguments.config, overrides);
}

JobRequest request_of(Purpose purpose, const RunSpec& spec, std::optional<int64_t> batch) {
  JobRequest request{.has_data = false, .use = {.purpose = purpose}};
  if (purpose == Purpose::generate)
    request.use.generation = {.sequences = batch.value_or(1), .positions = spec.recipe().model.input[0]};
  // Weights are random, but products have the types of the file.
  request.int8 = int8_network_named(spec.recipe().run.resume_path());
  if (request.int8 != nullptr && purpose == Purpose::train) require_trainable(request.int8->file);
  return request;
}

/// One job on a device of its own: a GPU's memory is free again after it.
MeasuredTime measure(const Arguments& arguments, std::optional<int64_t> batch) {
  const Purpose purpose = purpose_of(arguments.timing.purpose);
  RunSpec spec = timed_recipe(arguments, batch);
  forward_program(spec, {.purpose = purpose});  // refuses an unsuitable network before a device is opened
  Tuning tuning = earlier_tuning(spec);
  const DeviceChoice choice = choose_device(spec.recipe().device);
  const Backend backend = open_device(spec, tuning, choice);
  set_precision(spec, *backend.planner);
  // The memory of training decides, in which weights of 8 bits play no part.
  if (spec.searches_micro_batch())
    spec = make_fitting_job(spec, *backend.planner, {.has_data = false, .use = {.purpose = Purpose::train}})
               .spec;
  if (batch && purpose == Purpose::predict) spec = spec.with_micro_batch(*batch);
  const Job job = make_job(spec, *backend.planner, request_of(purpose, spec, batch));
  require_memory(*backend.planner, job);
  return {.device = choice.type,
          .facts = backend.planner->facts(),
          .timing = time_job(job, *backend.device, arguments.timing.iterations)};
}

}  // namespace

int time_command(const Arguments& arguments) {
  require_one_process("timing");
  const StopSignals signals(StopSignals::kPass);  // they end it at once: all is printed at the end
  const TimingArguments& wanted = arguments.timing;
  std::vector<MeasuredTime> measured;
  std::exception_ptr problem;  // of a batch, such as one beyond the memory: those before it are printed
  try {
    if (wanted.batches.empty()) measured.push_back(measure(arguments, std::nullopt));
    for (const int64_t batch : wanted.batches) measured.push_back(measure(arguments, batch));
  } catch (...) {
    if (measured.empty()) throw;
    problem = std::current_exception();
  }
  print_to_output(arguments.json ? measured_json(measured, wanted.purpose, wanted.iterations)
                                 : measured_text(measured, wanted.purpose, wanted.iterations));
  if (problem) std::rethrow_exception(problem);
  return 0;
}

}  // namespace trainer
