// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/idx.h"

#include "tests/fuzz/files.h"

/// The first byte is the share of the rest for the file of images; the labels follow.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  const size_t images = bytes.size() * data[0] / 255;
  const std::string path = trainer::put_file("set-images-idx3-ubyte", bytes.first(images));
  trainer::put_file("set-labels-idx1-ubyte", bytes.subspan(images));
  const std::string prefix = path.substr(0, path.rfind("-images"));
  trainer::read_or_refuse([&] { return trainer::open_idx(prefix); });
  return 0;
}
