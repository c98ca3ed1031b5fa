// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/import/foreign_weights.h"
#include "core/import/pickle.h"
#include "core/import/torch_state.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/foreign.h"

namespace trainer {
namespace {

/// A mutation of a whole archive would hardly ever leave its checksums right.
void try_pickle(std::span<const uint8_t> bytes) {
  Pickle pickle(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "pickle");
  try {
    for (const TorchTensor& tensor : read_torch_state(pickle, pickle.read()).tensors)
      if (tensor.begin < 0 || tensor.end < tensor.begin || tensor.stored.end < 0) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace
}  // namespace trainer

/// The bytes as a file, and as the pickle of an archive.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = trainer::put_file("w.pth", {data, size});
  trainer::copy_or_refuse([&] { return trainer::open_foreign_weights(path); });
  trainer::try_pickle({data, size});
  return 0;
}
