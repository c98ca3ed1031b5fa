// SPDX-License-Identifier: Apache-2.0
#include "core/import/onnx_file.h"

#include "tests/fuzz/files.h"
#include "tests/fuzz/foreign.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = trainer::put_file("w.onnx", {data, size});
  trainer::copy_or_refuse([&] { return trainer::open_onnx_file(path); });
  return 0;
}
