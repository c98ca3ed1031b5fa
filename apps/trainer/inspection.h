// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/regular_file.h"
#include "core/run/run_list.h"
#include "core/storage/checkpoint.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// A safetensors file. `problem` is why it is not whole, and empty if it is.
struct FileInspection {
  std::filesystem::path path;
  int64_t bytes = 0;
  std::vector<StoredTensor> tensors;  ///< in the order of their data
  StoredMetadata metadata;
  std::string problem;
};

/// A checkpoint with all its bytes read.
struct CheckpointInspection {
  struct File {
    CheckpointFile expected;
    std::string problem;
  };
  std::filesystem::path path;
  std::optional<Manifest> manifest;
  std::vector<File> files;  ///< those of the manifest
  std::string state;        ///< the text of state.json, if it is intact
  std::string problem;      ///< the first
  bool is_unknown = false;  ///< of another version: that is the problem, it may be intact
};

/// A run's directory, or one of checkpoints alone.
struct RunInspection {
  std::filesystem::path path;
  std::optional<RunOverview> overview;
  std::vector<CheckpointInspection> checkpoints;  ///< the newest first
  std::vector<std::filesystem::path> set_aside;   ///< damaged ones that runs have found; not read
  std::vector<FileInspection> weights;            ///< those that the run leaves in the end
};

/// A file beside a manifest is compared with that too. Throws Error (exit 74) if it cannot be read.
FileInspection inspect_file(const std::filesystem::path& path, Links links = Links::follow);
CheckpointInspection inspect_checkpoint(const std::filesystem::path& path);
RunInspection inspect_run(const std::filesystem::path& path);

/// Whether a directory is treated as a checkpoint, damaged or not; otherwise as a run. Throws Error (exit 65)
/// if it is neither.
bool is_checkpoint(const std::filesystem::path& directory);

}  // namespace trainer
