// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_png.h"
#include "tests/fuzz/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trainer::fuzz_decode(trainer::make_png_decoder, data, size);
  try {
    std::vector<uint8_t> values;
    const trainer::ImageHeader header = trainer::make_png_decoder({data, size})->read_header();
    if (header.width < 1 || header.height > (int64_t{1} << 20) / header.width) return 0;
    trainer::decode_png_values({data, size}, header.height, header.width, values);
  } catch (const trainer::DecodeError&) {
  }
  return 0;
}
