// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/matmul.h"

#include <algorithm>
#include <type_traits>

namespace trainer::standin {
namespace {

/// A matrix's elements column by column, without the gaps between columns.
std::vector<float> load_matrix(const MatrixLayout& layout, const void* data) {
  std::vector<float> values;
  for (int64_t c = 0; c < layout.columns; ++c) {
    const auto* column = static_cast<const char*>(data) +
                         c * layout.leading * static_cast<int64_t>(element_bytes(layout.type));
    const std::vector<float> more = load(layout.type, column, layout.rows);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

void store_matrix(const MatrixLayout& layout, const std::vector<float>& values, void* data) {
  for (int64_t c = 0; c < layout.columns; ++c) {
    const auto begin = values.begin() + c * layout.rows;
    auto* column =
        static_cast<char*>(data) + c * layout.leading * static_cast<int64_t>(element_bytes(layout.type));
    store(layout.type, std::vector<float>(begin, begin + layout.rows), column);
  }
}

/// op(a) of (rows, columns) row by row: as stored, column by column, it is its transpose.
std::vector<float> operand(const MatrixLayout& layout, const void* data, bool is_transposed) {
  std::vector<float> values = load_matrix(layout, data);
  return is_transposed ? values : transposed(layout.columns, layout.rows, values);
}

void add(const std::vector<float>& more, float factor, std::vector<float>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += factor * more[i];
}

}  // namespace

Epilogue epilogue_of(const MatmulDescriptor& how, const MatrixLayout& d) {
  return {how.epilogue, d.type, d.rows, d.columns, how.kept_leading, how.kept};
}

cudaDataType_t bias_type_of(const MatmulDescriptor& how, const MatrixLayout& d) {
  return how.bias_type == kTypeOfD ? d.type : static_cast<cudaDataType_t>(how.bias_type);
}

void Matmul::run() const {
  const auto at = [](auto* data, const MatrixLayout& layout, int64_t n) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, const char, char>;
    return static_cast<Byte*>(data) + n * layout.bytes_to_next();
  };
  for (int64_t n = 0; n < d.batch; ++n) {
    const void* c_matrix = c_data == nullptr ? nullptr : at(c_data, d, n);
    multiply(at(a_data, a, n), at(b_data, b, n), c_matrix, at(d_data, d, n));
  }
}

/// One product of the batch.
void Matmul::multiply(const void* a_matrix, const void* b_matrix, const void* c_matrix,
                      void* d_matrix) const {
  const bool transpose_a = how.transpose_a == CUBLAS_OP_T, transpose_b = how.transpose_b == CUBLAS_OP_T;
  const int64_t k = terms();
  const std::vector<float> left = operand(a, a_matrix, transpose_a),
                           right = operand(b, b_matrix, transpose_b);
  std::vector<float> sums(static_cast<size_t>(d.count()));
  multiply_add(d.rows, d.columns, k, left.data(), right.data(), sums.data());
  if (c_matrix != nullptr) add(transposed(d.columns, d.rows, load_matrix(d, c_matrix)), beta, sums);
  const cudaDataType_t bias_type = bias_type_of(how, d);
  const Epilogue epilogue = epilogue_of(how, d);
  if (epilogue.has_bias()) add_bias(load(bias_type, how.bias, d.rows), sums);
  epilogue.activate(sums);
  const std::vector<float> ones(static_cast<size_t>(k), 1.0f);
  if (how.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    std::vector<float> rows(static_cast<size_t>(d.rows));
    multiply_add(d.rows, 1, k, left.data(), ones.data(), rows.data());
    store(bias_type, rows, how.bias);
  }
  if (how.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    std::vector<float> columns(static_cast<size_t>(d.columns));
    multiply_add(1, d.columns, k, ones.data(), right.data(), columns.data());
    store(bias_type, columns, how.bias);
  }
  store_matrix(d, transposed(d.rows, d.columns, sums), d_matrix);
}

/// An element for each row of d.
void Matmul::add_bias(const std::vector<float>& bias, std::vector<float>& sums) const {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += bias[i / static_cast<size_t>(d.columns)];
}

std::vector<Range> Matmul::ranges() const {
  std::vector<Range> found{{a_data, a.bytes()}, {b_data, b.bytes()}, {d_data, d.bytes()}};
  if (c_data != nullptr) found.push_back({c_data, d.bytes()});
  const int64_t count = how.epilogue == CUBLASLT_EPILOGUE_BGRADB ? d.columns : d.rows;
  const Epilogue epilogue = epilogue_of(how, d);
  if (epilogue.has_kept()) found.push_back({how.kept, epilogue.kept_bytes()});
  if (epilogue.has_bias() || epilogue.is_of_bias()) {
    const size_t bytes = element_bytes(bias_type_of(how, d));
    found.push_back({how.bias, static_cast<size_t>(count) * bytes});
  }
  return found;
}

bool overlaps(const Matmul& product) {
  Matmul without_c = product;
  if (product.c_data == product.d_data) without_c.c_data = nullptr;
  std::vector<Range> others = without_c.ranges();
  others.erase(others.begin() + Matmul::kRangeOfD);
  const auto *first = static_cast<const char*>(product.d_data), *end = first + product.d.bytes();
  return std::ranges::any_of(others, [&](const Range& other) {
    const auto* begin = static_cast<const char*>(other.begin);
    return begin < end && first < begin + other.bytes;
  });
}

}  // namespace trainer::standin
