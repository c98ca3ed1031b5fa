// SPDX-License-Identifier: Apache-2.0
#include "core/run/best_weights.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/run/resume.h"
#include "core/storage/checkpoint.h"
#include "core/storage/safetensors.h"
#include "core/tasks/metric.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBest = "best";

std::string text_of(const BestEvaluation& best) {
  const Json json = {{"metric", best.metric}, {"value", best.value}, {"step", best.step}};
  return json.dump(-1, Json::NotUtf8::replace);
}

/// One that cannot be read is of no evaluation: it is replaced.
bool is_of(const fs::path& path, const BestEvaluation& best) try {
  const StoredMetadata metadata = SafetensorsFile(path).metadata();
  const auto found = metadata.find(kBest);
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

void copy_weights(const fs::path& checkpoint, const fs::path& path, const BestEvaluation& best) {
  const Manifest manifest = read_manifest(checkpoint);
  const SafetensorsFile model = open_verified(checkpoint, manifest, kModelFile);
  std::optional<SafetensorsFile> averages;
  if (best.metric.starts_with(kAveraged))
    averages.emplace(open_verified(checkpoint, manifest, kAveragesFile));
  StoredMetadata metadata = model.metadata();
  metadata[kBest] = text_of(best);
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
    for (const fs::path& checkpoint : list_checkpoints(checkpoint_root(run))) {
      if (checkpoint_step(checkpoint) == best.step) return copy_weights(checkpoint, path, best);
    }
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw io_error(path, "unlink", errno);
}

}  // namespace trainer
