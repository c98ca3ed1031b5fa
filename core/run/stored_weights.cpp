// SPDX-License-Identifier: Apache-2.0
#include "core/run/stored_weights.h"

#include <span>
#include <utility>

#include "core/run/weight_fit.h"
#include "core/run/weights.h"

namespace trainer {

StoredWeights::StoredWeights(Program program, const TiedNames& tied, const std::filesystem::path& path)
    : program_(std::move(program)), file_(path) {
  std::vector<const Tensor*> wanted;
  for (const Tensor& tensor : program_.tensors) {
    if (is_weight(tensor)) wanted.push_back(&tensor);
  }
  names_ = match_names(wanted, tied, file_);
  require_fit(wanted, path, file_, names_, {.patterns = {}, .origin = {}, .tied = tied}, false);
}

std::vector<float> StoredWeights::read(const std::string& name) const {
  return file_.read_floats(*names_.find(name));
}

void StoredWeights::copy(const std::string& name, const ByteSink& sink) const {
  const StoredTensor& stored = *names_.find(name);
  if (stored.dtype == "F32") return file_.copy_bytes(stored, sink);
  const std::vector<float> values = file_.read_floats(stored);
  sink(std::as_bytes(std::span(values)));
}

std::string StoredWeights::prefix_remark() const {
  return trainer::prefix_remark({.loaded = {}, .replaced = {}, .left = {}, .prefixes = names_.prefixes});
}

}  // namespace trainer
