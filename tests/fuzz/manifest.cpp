// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdlib>
#include <span>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

void try_manifest(const std::string& text) {
  try {
    if (to_text(parse_manifest(text, "manifest.txt")) != text) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace
}  // namespace trainer

/// The text unchanged, and with the right checksum.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  trainer::try_manifest(text);
  const uint64_t sum = trainer::checksum(std::as_bytes(std::span(text)));
  trainer::try_manifest(fmt::format("{}whole {:016x}\n", text, sum));
  return 0;
}
