// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/epilogue.h"

#include <algorithm>
#include <cmath>

#include "tests/cuda_standin/products.h"

namespace trainer::standin {
namespace {

template <class... Kinds>
bool is_any(cublasLtEpilogue_t kind, Kinds... kinds) {
  return ((kind == kinds) || ...);
}

struct Gelu {
  float value, slope;
};

/// The approximation by tanh: x s with s = 1 / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))).
Gelu gelu(float x) {
  const float scale = 1.59576912f, s = 1 / (1 + std::exp(-scale * (x + 0.044715f * x * x * x)));
  return {x * s, s + x * s * (1 - s) * scale * (1 + 0.134145f * x * x)};
}

}  // namespace

bool Epilogue::has_bias() const {
  return is_any(kind, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
}
bool Epilogue::is_of_bias() const {
  return is_any(kind, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB);
}
bool Epilogue::has_mask() const {
  return is_any(kind, CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU);
}
bool Epilogue::has_kept() const {
  return has_mask() ||
         is_any(kind, CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU);
}

bool Epilogue::is_supported() const {
  if (is_of_bias()) return rows % 2 == 0 && columns % 2 == 0;
  if (is_any(kind, CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS)) return true;
  if (type == CUDA_R_32F) return false;
  if (!has_kept()) return is_any(kind, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS);
  return rows % 8 == 0 &&
         (has_mask() ? kept_leading % 128 == 0 && kept_leading >= rows : kept_leading == rows);
}

size_t Epilogue::kept_bytes() const {
  const auto elements = static_cast<size_t>(kept_leading * columns);
  return has_mask() ? elements / 8 : elements * element_bytes(type);
}

void Epilogue::activate(std::vector<float>& sums) const {
  const auto bit_of = [&](size_t i) {
    const auto place = static_cast<int64_t>(i);
    return place % columns * kept_leading + place / columns;
  };
  if (kind == CUBLASLT_EPILOGUE_DRELU) {
    const auto* mask = static_cast<const unsigned char*>(kept);
    for (size_t i = 0; i < sums.size(); ++i) {
      if ((mask[bit_of(i) / 8] >> bit_of(i) % 8 & 1) == 0) sums[i] = 0;
    }
  } else if (has_mask()) {
    auto* mask = static_cast<unsigned char*>(kept);
    std::fill_n(mask, kept_bytes(), static_cast<unsigned char>(0));
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] > 0) mask[bit_of(i) / 8] |= static_cast<unsigned char>(1 << bit_of(i) % 8);
      sums[i] = sums[i] > 0 ? sums[i] : 0;  // NaN too, as cuBLASLt's
    }
  } else if (kind == CUBLASLT_EPILOGUE_DGELU) {
    const std::vector<float> read = transposed(columns, rows, load(type, kept, rows * columns));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] *= gelu(read[i]).slope;
  } else if (has_kept() || is_any(kind, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS)) {
    if (has_kept()) store(type, transposed(rows, columns, sums), kept);
    for (float& sum : sums) sum = gelu(sum).value;
  }
}

}  // namespace trainer::standin
