// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

namespace trainer::standin {

/// cuBLASLt's operations on the sums of a product, in the order of its rows, before it stores them.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t type;    ///< of the product
  int64_t rows, columns;  ///< of the product
  int64_t kept_leading;   ///< elements or, of a mask, bits
  void* kept;

  bool has_bias() const;    ///< one that is added
  bool is_of_bias() const;  ///< the gradient of one goes to its address
  bool has_mask() const;
  bool has_kept() const;  ///< a mask or the input of a gelu
  /// Whether the stand-in computes it. The gradient of a bias comes with even dimensions only, so that
  /// callers meet a product without its epilogue.
  bool is_supported() const;
  size_t kept_bytes() const;
  /// After the bias: gelu or relu, and the values they keep, or their gradient by those.
  void activate(std::vector<float>& sums) const;
};

}  // namespace trainer::standin
