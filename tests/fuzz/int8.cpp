// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/run/int8_weights.h"
#include "core/storage/safetensors_header.h"
#include "tests/fuzz/files.h"

namespace trainer {
namespace {

/// Anything but damaged data (exit 65) ends the process.
template <class Act>
void read_weights_or_refuse(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

/// What is read of a text has finite ranges, and is read alike from the text that is written of it.
void try_ranges(const std::string& text) {
  read_weights_or_refuse([&] {
    const Int8Network network = int8_network_from(text, "net.safetensors");
    for (const auto& [name, range] : network.inputs) {
      if (!std::isfinite(range.low) || !std::isfinite(range.high) || range.low > range.high) std::abort();
    }
    if (int8_network_from(to_text(network), "net.safetensors").inputs != network.inputs) std::abort();
  });
}

/// Weights of two outputs and three features with these bytes: scales, then integers.
void try_weights(std::span<const uint8_t> bytes) {
  constexpr size_t kOutputs = 2, kFeatures = 3;
  std::vector<StoredTensor> tensors = {{.name = "w_scale", .shape = {kOutputs}},
                                       {.name = "w", .dtype = "I8", .shape = {kOutputs, kFeatures}}};
  const std::string header = compose_header(tensors, {});
  const uint64_t length = header.size();
  std::vector<uint8_t> file(sizeof length);
  std::memcpy(file.data(), &length, sizeof length);
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), bytes.begin(), bytes.end());
  file.resize(sizeof length + length + kOutputs * sizeof(float) + kOutputs * kFeatures, 1);
  const std::string path = put_file("w.safetensors", file);
  read_weights_or_refuse([&] {
    const SafetensorsFile weights(path);
    const std::vector<float> scales = weights.read_floats(*weights.find("w_scale")),
                             values = weights.read_floats(*weights.find("w"));
    for (size_t i = 0; i < values.size(); ++i) {
      const float scale = scales[i / kFeatures];
      if (!(scale > 0) || !std::isfinite(scale)) std::abort();
      if (std::abs(values[i]) > 128 * scale) std::abort();
    }
  });
}

}  // namespace
}  // namespace trainer

/// The metadata of weights with 8 bits, and as bytes the weights with their scales.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trainer::try_ranges(std::string(reinterpret_cast<const char*>(data), size));
  trainer::try_weights(std::span(data, size));
  return 0;
}
