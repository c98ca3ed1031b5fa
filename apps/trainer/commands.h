// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/trainer/arguments.h"

namespace trainer {

// One function per subcommand, each in its own file. They print to standard output and return the process's
// exit code. User errors are thrown as Error.
int train_command(const Arguments& arguments);
int init_command(const Arguments& arguments);
int eval_command(const Arguments& arguments);
int predict_command(const Arguments& arguments);
int generate_command(const Arguments& arguments);
int export_command(const Arguments& arguments);
int quantize_command(const Arguments& arguments);
int prune_command(const Arguments& arguments);
int plan_command(const Arguments& arguments);
int time_command(const Arguments& arguments);
int tune_lr_command(const Arguments& arguments);
int tune_batch_command(const Arguments& arguments);
int sweep_command(const Arguments& arguments);
int slurm_command(const Arguments& arguments);
int layers_command(const Arguments& arguments);
int data_stats_command(const Arguments& arguments);
int data_check_command(const Arguments& arguments);
int data_pack_command(const Arguments& arguments);
int data_tokenize_command(const Arguments& arguments);
int schema_command(const Arguments& arguments);
int doctor_command(const Arguments& arguments);
int import_command(const Arguments& arguments);
int inspect_command(const Arguments& arguments);
int runs_command(const Arguments& arguments);
int compare_command(const Arguments& arguments);
int report_command(const Arguments& arguments);
int watch_command(const Arguments& arguments);
int track_command(const Arguments& arguments);
int completion_command(const Arguments& arguments);
int man_command();

}  // namespace trainer
