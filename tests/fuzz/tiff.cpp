// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_tiff.h"
#include "tests/fuzz/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trainer::fuzz_decode(trainer::make_tiff_decoder, data, size);
  return 0;
}
