// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainer {

/// Whether this process has a GPU, usable or not, and the evidence.
struct GpuSearch {
  bool found = false;
  std::string reason;  ///< "/dev/nvidia0 exists"
};

/// Looks without opening NVIDIA's driver, which takes seconds and may be broken: CUDA_VISIBLE_DEVICES may
/// hide all GPUs, Slurm may have allotted some, and each has a file below `root`. A GPU without a file has no
/// driver that runs; containers see such GPUs of others, so it counts as none, and the reason says so.
GpuSearch find_gpu(const std::filesystem::path& root = "/");

/// How many GPUs this process sees, found in the same way: those that CUDA_VISIBLE_DEVICES lists, else those
/// with files.
int64_t visible_gpus(const std::filesystem::path& root = "/");

}  // namespace trainer
