// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/search_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/trainer/option_values.h"
#include "core/base/error.h"

namespace trainer {
namespace {

constexpr double kLeastRate = 1e-20, kMostRate = 1e20;
constexpr int64_t kMostTuningSteps = 100'000;

void add_tune_lr(CLI::App& tune, Arguments& arguments) {
  CLI::App* rate = tune.add_subcommand("lr", "find a learning rate: train briefly while the rate rises");
  add_recipe(*rate, arguments);
  TuneArguments& wanted = arguments.tune;
  make_number(*rate->add_option("--from", wanted.from, "the first rate (default 1e-6)"), kLeastRate,
              kMostRate);
  make_number(*rate->add_option("--to", wanted.to, "the last rate (default 10)"), kLeastRate, kMostRate);
  make_count(*rate->add_option("--steps", wanted.steps, "steps from the first to the last (default 200)"), 20,
             kMostTuningSteps);
  make_count(*rate->add_option("--repeats", wanted.repeats,
                               "trainings with different seeds whose losses are averaged (default 1)"),
             1, 100);
  rate->add_flag("--json", arguments.json, "print the curve and the suggestions as JSON");
}

void add_tune_batch(CLI::App& tune, Arguments& arguments) {
  CLI::App* batch =
      tune.add_subcommand("batch", "find a micro-batch: time each that fits into memory, in turns");
  add_recipe(*batch, arguments);
  TuneArguments& wanted = arguments.tune;
  make_count(
      *batch->add_option("--only", wanted.only, "measure this micro-batch alone, once, in this process"), 1,
      kMostBatch);
  make_number(*batch->add_option("--seconds", wanted.seconds,
                                 "how long to train with each, in each of three rounds (default 2)"),
              0.01, 3600);
  batch->add_flag("--json", arguments.json, "print the times as JSON");
}

}  // namespace

void add_tune_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* tune = app.add_subcommand("tune", "find a recipe's learning rate or micro-batch");
  tune->require_subcommand(1);
  add_tune_lr(*tune, arguments);
  add_tune_batch(*tune, arguments);
}

void add_sweep_command(CLI::App& app, Arguments& arguments) {
  CLI::App* sweep =
      app.add_subcommand("sweep", "train the settings of the recipe's section `sweep`, and find the best");
  add_recipe(*sweep, arguments);
  sweep->add_flag("--plan", arguments.sweep_plan,
                  "print the settings that are known beforehand with their memory and steps, then exit");
}

void finish_tune(const CLI::App& tune, Arguments& arguments) {
  const bool rates = tune.got_subcommand("lr");
  arguments.command = rates ? Arguments::Command::tune_lr : Arguments::Command::tune_batch;
  if (rates && arguments.tune.from >= arguments.tune.to)
    throw Error(ExitCode::usage, fmt::format("--from: must be below --to, {:g}, got {:g}", arguments.tune.to,
                                             arguments.tune.from));
}

}  // namespace trainer
