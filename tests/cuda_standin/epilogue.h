// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

namespace trainer::standin {

/// What cuBLASLt does to the sums of a product, in the order of its rows, before it stores them.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t type;    ///< of the product
  int64_t rows, columns;  ///< of the product
  int64_t kept_leading;   ///< elements or, of a mask, bits
  void* kept;

  bool has_bias() const;    ///< one that is added
  bool is_of_bias() const;  ///< the gradient of one goes to its address
  bool has_mask() const;
  bool has_kept() const;  ///< a mask or what a gelu reads
  /// Whether the stand-in computes it. The gradient of a bias comes with even dimensions only, so that
  /// callers meet a product without its epilogue.
  bool is_supported() const;
  size_t kept_bytes() const;
  /// Behind the bias: gelu or relu, and what they keep, or their gradient by that.
  void activate(std::vector<float>& sums) const;
};

}  // namespace trainer::standin
