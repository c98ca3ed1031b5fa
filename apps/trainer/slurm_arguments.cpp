// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/slurm_arguments.h"

#include <CLI/CLI.hpp>

#include "apps/trainer/option_values.h"

namespace trainer {

void add_slurm_command(CLI::App& app, Arguments& arguments) {
  SlurmArguments& job = arguments.slurm;
  CLI::App* slurm = app.add_subcommand("slurm", "print a Slurm job script for the recipe");
  add_recipe(*slurm, arguments);
  const auto add_number = [&](const char* name, int64_t& value, const char* help) {
    make_count(*slurm->add_option(name, value, help), 1, 1'000'000);
  };
  add_number("--nodes,-N", job.nodes, "nodes (default: 1)");
  add_number("--gpus-per-node", job.gpus_per_node, "GPUs of each node, with a rank for each");
  add_number("--tasks-per-node", job.tasks_per_node,
             "ranks on each node (default: one for each GPU, else one)");
  add_number("--cpus-per-task", job.cpus_per_task, "cores of each rank (default: 8)");
  slurm
      ->add_option("--time,-t", job.time,
                   "limit of the job: 4:00:00, 1-12:00:00, or minutes (default: 4:00:00)")
      ->type_name("TIME");
  const auto add_text = [&](const char* name, std::string& value, const char* help, const char* type) {
    slurm->add_option(name, value, help)->type_name(type);
  };
  add_text("--partition,-p", job.partition, "partition", "NAME");
  add_text("--account,-A", job.account, "account", "NAME");
  add_text("--mem", job.memory, "memory of each node, as in 64G; 0: all of it", "SIZE");
}

}  // namespace trainer
