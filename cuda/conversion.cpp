// SPDX-License-Identifier: Apache-2.0
#include "cuda/conversion.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

namespace trainer::cuda {
namespace {

float widen(__half x) {
  return __half2float(x);
}
float widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <class T>
float widen(T x) {
  return static_cast<float>(x);
}

/// Calls visit with a function from float to the type in which elements are stored.
template <class Visit>
void with_conversion(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f32:
      return visit([](float x) { return x; });
    case DType::f16:
      return visit([](float x) { return __float2half_rn(x); });
    case DType::bf16:
      return visit([](float x) { return __float2bfloat16_rn(x); });
    case DType::i32:
      return visit([](float x) { return static_cast<int32_t>(x); });
    case DType::u8:
      return visit([](float x) { return static_cast<uint8_t>(x); });
  }
}

}  // namespace

std::vector<std::byte> to_stored(std::span<const float> values, DType dtype) {
  std::vector<std::byte> stored;
  with_conversion(dtype, [&](auto narrow) {
    using T = decltype(narrow(0.0f));
    stored.resize(values.size() * sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      const T element = narrow(values[i]);
      std::memcpy(stored.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return stored;
}

void from_stored(std::span<const std::byte> stored, DType dtype, float* values) {
  with_conversion(dtype, [&](auto narrow) {
    using T = decltype(narrow(0.0f));
    for (size_t i = 0; i * sizeof(T) < stored.size(); ++i) {
      T element;
      std::memcpy(&element, stored.data() + i * sizeof(T), sizeof(T));
      values[i] = widen(element);
    }
  });
}

}  // namespace trainer::cuda
