// SPDX-License-Identifier: Apache-2.0
#include "cuda/known_fastest.h"

#include "cuda/nccl_collectives.h"

namespace trainer::cuda {
namespace {

std::string shared_key(const Gpu& gpu, const std::string& key) {
  return "fastest, " + gpu.machine + ": " + key;
}

}  // namespace

std::optional<std::string> known_fastest(const Gpu& gpu, const std::string& key) {
  const auto own = gpu.tuning->fastest.find(key);
  if (own != gpu.tuning->fastest.end()) return own->second;
  if (gpu.cache == nullptr || gpu.tuning->keeps_own) return std::nullopt;
  return gpu.cache->find(shared_key(gpu, key));
}

void keep_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm) {
  gpu.tuning->fastest[key] = algorithm;
}

void share_fastest(const Gpu& gpu, const std::string& key, const std::string& algorithm) {
  keep_fastest(gpu, key, algorithm);
  if (gpu.collectives != nullptr) gpu.collectives->group().note_progress();
  if (gpu.cache != nullptr) gpu.cache->put(shared_key(gpu, key), algorithm);
}

}  // namespace trainer::cuda
