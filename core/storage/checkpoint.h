// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/storage/atomic_file.h"

namespace trainer {

/// A checkpoint is a directory `step-00000100` of these files and `manifest.txt`, which lists them and is
/// written last. A directory is renamed to that name when all of it is on the disk. An existing checkpoint is
/// therefore complete, unless it was damaged later.
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kAveragesFile = "model_ema.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr const char* kManifestFile = "manifest.txt";

/// A checkpoint that is certainly damaged: it was read to its end twice, with equal results, and differs from
/// what was written. With any other error it may be intact.
class DamageError : public Error {
 public:
  explicit DamageError(const std::string& text) : Error(ExitCode::data, text) {}
};

struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t checksum = 0;  ///< XXH3 of 64 bits
  bool operator==(const CheckpointFile&) const = default;
};

struct Manifest {
  int64_t step = 0;
  std::vector<CheckpointFile> files;
  int64_t bytes() const;
  bool operator==(const Manifest&) const = default;
};

/// As text; parse_manifest accepts no other form of its lines. The last one has the checksum of the others.
std::string to_text(const Manifest& manifest);
/// Throws, with `file` and the reason: DamageError if the text is not the one written, Error (exit
/// 65) if it is of another version.
Manifest parse_manifest(std::string_view text, const std::string& file);

/// Throws as parse_manifest, DamageError if there is none, and Error (exit 74) if it cannot be read.
Manifest read_manifest(const std::filesystem::path& checkpoint);
/// Reads every byte of one of a checkpoint's files. Throws, naming it: DamageError if it is missing or
/// damaged, Error (exit 74) if it cannot be read, or two reads differ.
void verify_file(const std::filesystem::path& checkpoint, const CheckpointFile& expected);
/// The same for all files. Throws Error (exit 65) if the directory's name is that of another step.
Manifest verify_checkpoint(const std::filesystem::path& checkpoint);

/// The checkpoints in a directory by their names, the newest first; not looked into. None if the directory
/// does not exist; throws Error (exit 74) if it cannot be read.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& root);
/// Checkpoints that set_aside has left there, by name.
std::vector<std::filesystem::path> list_set_aside(const std::filesystem::path& root);
/// The step in a checkpoint's name, or -1 for other names.
int64_t checkpoint_step(const std::filesystem::path& checkpoint);
/// Removes a checkpoint, durably; no part of it ever remains under its name. Throws Error (exit 74).
void remove_checkpoint(const std::filesystem::path& checkpoint);
/// Gives a damaged checkpoint a name that is not listed, `damaged-step-00000100`, and returns that. Nothing
/// removes it. Throws Error (exit 74).
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);
/// Removes the remains of interrupted saves, and restores the name of a checkpoint that one of them was to
/// replace.
void tidy_checkpoints(const std::filesystem::path& root);

/// Writes one checkpoint: its files, then commit(). Nothing of it remains unless that succeeds.
class CheckpointWriter {
 public:
  /// Below `root`, which is made if it is missing, and is removed again if nothing is committed. Throws Error
  /// (exit 74), as all of the following.
  CheckpointWriter(const std::filesystem::path& root, int64_t step);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// Writes a file and reads it back, while the disk takes the written bytes.
  /// Throws Error (exit 65) if other bytes come back; nothing may be added or committed after a failure.
  void add(const std::string& name, const std::function<void(const ByteSink&)>& produce);
  /// Waits until all of it is on the disk, then gives the directory its name. Returns that. Removes a
  /// checkpoint of the same step, once this one has replaced it.
  std::filesystem::path commit();
  const Manifest& manifest() const { return manifest_; }

 private:
  void take_place(const std::filesystem::path& path);

  std::filesystem::path root_, temporary_;
  bool makes_root_;
  Manifest manifest_;
  std::vector<NewFile> open_;
};

}  // namespace trainer
