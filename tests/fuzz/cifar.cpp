// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/cifar.h"

#include "tests/fuzz/files.h"

/// The first byte selects the set of the files, the second the share of the rest for the first of two.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto set = data[0] % 2 == 0 ? trainer::Cifar::ten : trainer::Cifar::hundred;
  const std::span<const uint8_t> bytes(data + 2, size - 2);
  const size_t first = bytes.size() * data[1] / 255;
  const std::string paths = trainer::put_file("one.bin", bytes.first(first)) + "," +
                            trainer::put_file("two.bin", bytes.subspan(first));
  trainer::read_or_refuse([&] {
    const auto known = trainer::peek_cifar(set, paths, trainer::Split::train);
    auto source = trainer::open_cifar(set, paths, trainer::Split::train);
    if (known.size != source->size()) std::abort();
    return source;
  });
  return 0;
}
