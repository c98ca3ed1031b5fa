// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

/// The job scripts of scripts/slurm/, as text.
extern const char* const kTrainScript;      ///< train.sbatch
extern const char* const kTrainMpiScript;   ///< train_mpi.sbatch
extern const char* const kTrainNcclScript;  ///< train_nccl.sbatch

}  // namespace trainer
