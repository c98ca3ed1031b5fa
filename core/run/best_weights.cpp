// SPDX-License-Identifier: Apache-2.0
#include "core/run/best_weights.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/run/resume.h"
#include "core/storage/checkpoint.h"
#include "core/storage/safetensors.h"
#include "core/tasks/metric.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::string text_of(const BestEvaluation& best) {
  const Json json = {{"metric", best.metric}, {"value", best.value}, {"step", best.step}};
  return json.dump(-1, Json::NotUtf8::replace);
}

/// One that cannot be read is of no evaluation: it is replaced.
bool is_of(const fs::path& path, const BestEvaluation& best) try {
  const StoredMetadata metadata = SafetensorsFile(path).metadata();
  const auto found = metadata.find(kBestMetadata);
  return found != metadata.end() && found->second == text_of(best);
} catch (const Error&) {
  return false;
}

/// A checkpoint's file, with all its bytes verified.
SafetensorsFile open_verified(const fs::path& checkpoint, const Manifest& manifest, const char* name) {
  const auto listed = std::ranges::find(manifest.files, name, &CheckpointFile::name);
  if (listed == manifest.files.end()) throw DamageError(checkpoint.string() + ": lists no " + name);
  verify_file(checkpoint, *listed);
  return SafetensorsFile(checkpoint / name);
}

std::optional<fs::path> checkpoint_of(const fs::path& run, int64_t step) {
  for (fs::path& checkpoint : list_checkpoints(checkpoint_root(run))) {
    if (checkpoint_step(checkpoint) == step) return std::move(checkpoint);
  }
  return std::nullopt;
}

/// `best` goes into the metadata unless it is empty.
void copy_weights(const fs::path& checkpoint, const fs::path& path, bool averaged, const std::string& best) {
  const Manifest manifest = read_manifest(checkpoint);
  const SafetensorsFile model = open_verified(checkpoint, manifest, kModelFile);
  std::optional<SafetensorsFile> averages;
  if (averaged) averages.emplace(open_verified(checkpoint, manifest, kAveragesFile));
  StoredMetadata metadata = model.metadata();
  if (!best.empty()) metadata[kBestMetadata] = best;
  const auto produce = [&](size_t i, const ByteSink& sink) {
    const StoredTensor& tensor = model.tensors()[i];
    const StoredTensor* average = averages ? averages->find(tensor.name) : nullptr;
    if (average != nullptr && average->shape == tensor.shape) return averages->copy_bytes(*average, sink);
    model.copy_bytes(tensor, sink);
  };
  write_safetensors(path, model.tensors(), metadata, produce);
}

}  // namespace

void keep_best_weights(const fs::path& run, const BestEvaluation& best) {
  const fs::path path = run / kBestFile;
  if (best.step > 0) {
    if (is_of(path, best)) return;
    if (const auto checkpoint = checkpoint_of(run, best.step))
      return copy_weights(*checkpoint, path, best.metric.starts_with(kAveraged), text_of(best));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw io_error(path, "unlink", errno);
}

void keep_final_weights(const fs::path& run, int64_t step, bool averages) {
  const auto checkpoint = checkpoint_of(run, step);
  if (!checkpoint) {
    throw Error(ExitCode::io,
                fmt::format("{}: the checkpoint of step {} is gone, so {} cannot be written; start the same "
                            "command again to train from the one before it",
                            one_line(checkpoint_root(run).string()), step, kModelFile));
  }
  copy_weights(*checkpoint, run / kModelFile, false, "");
  if (averages) copy_weights(*checkpoint, run / kAveragesFile, true, "");
}

}  // namespace trainer
