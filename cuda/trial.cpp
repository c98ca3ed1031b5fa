// SPDX-License-Identifier: Apache-2.0
#include "cuda/trial.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/base/bfloat16.h"
#include "core/base/float16.h"
#include "core/base/rng.h"

namespace trainer::cuda {
namespace {

constexpr const char* kName = "numbers for a timing";
constexpr int64_t kNumbers = 1 << 16;

/// Calls visit(T{}) with the type in which the host stores elements.
template <class Visit>
auto on_host(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(float{});
    case DType::f16:
      return visit(Float16{});
    case DType::bf16:
      return visit(BFloat16{});
    default:
      throw std::logic_error("a timing of whole numbers");
  }
}

}  // namespace

DeviceMemory filled_memory(int64_t elements, DType dtype, cudaStream_t stream) {
  const int64_t bytes = elements * bytes_per_element(dtype);
  DeviceMemory memory = scratch_memory(bytes);
  auto* to = static_cast<char*>(memory.get());
  const int64_t written = on_host(dtype, [&](auto type) {
    using T = decltype(type);
    std::vector<T> numbers;
    for (int64_t i = 0; i < std::min(elements, kNumbers); ++i) {
      const Words words = philox(random_key(1, "a timing"), {{static_cast<uint32_t>(i), 0, 0, 0}});
      numbers.push_back(T(2 * uniform(words.v[0]) - 1));
    }
    const auto count = static_cast<int64_t>(numbers.size() * sizeof(T));
    check(cudaMemcpyAsync(to, numbers.data(), static_cast<size_t>(count), cudaMemcpyHostToDevice, stream),
          kName);
    check(cudaStreamSynchronize(stream), kName);
    return count;
  });
  for (int64_t done = written; done < bytes; done *= 2) {
    const auto more = static_cast<size_t>(std::min(done, bytes - done));
    check(cudaMemcpyAsync(to + done, to, more, cudaMemcpyDeviceToDevice, stream), kName);
  }
  return memory;
}

std::vector<float> ends_of(const void* result, int64_t elements, DType dtype, cudaStream_t stream) {
  return on_host(dtype, [&](auto type) {
    using T = decltype(type);
    const auto* from = static_cast<const T*>(result);
    const int64_t count = std::min(elements, kNumbers);
    std::vector<T> numbers(static_cast<size_t>(2 * count));
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const auto copy = [&](T* to, const T* begin) {
      check(cudaMemcpyAsync(to, begin, bytes, cudaMemcpyDeviceToHost, stream), kName);
      check(cudaStreamSynchronize(stream), kName);
    };
    copy(numbers.data(), from), copy(numbers.data() + count, from + elements - count);
    std::vector<float> found;
    for (const T number : numbers) found.push_back(static_cast<float>(number));
    return found;
  });
}

bool agree(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr double kMost = 1.0 / 16;  // far above what rounding does, far below what other sums do
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference) <= kMost * std::sqrt(size);
}

}  // namespace trainer::cuda
