// SPDX-License-Identifier: Apache-2.0
#include "cuda/trial.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/rng.h"
#include "core/engine/stored.h"

namespace trainer::cuda {
namespace {

constexpr const char* kName = "input for a timing";
constexpr int64_t kNumbers = 1 << 16;

}  // namespace

DeviceMemory filled_memory(int64_t elements, DType dtype, cudaStream_t stream) {
  const int64_t element_bytes = bytes_per_element(dtype), bytes = elements * element_bytes;
  std::vector<float> numbers;
  for (int64_t i = 0; i < std::min(elements, kNumbers); ++i) {
    const Words words = philox(random_key(1, kName), {{static_cast<uint32_t>(i), 0, 0, 0}});
    numbers.push_back(2 * uniform(words.v[0]) - 1);
  }
  const std::vector<std::byte> stored = to_stored<float>(numbers, {dtype, element_bytes});
  DeviceMemory memory = scratch_memory(bytes);
  auto* to = static_cast<char*>(memory.get());
  check(cudaMemcpyAsync(to, stored.data(), stored.size(), cudaMemcpyHostToDevice, stream), kName);
  check(cudaStreamSynchronize(stream), kName);
  for (auto done = static_cast<int64_t>(stored.size()); done < bytes; done *= 2) {
    const auto more = static_cast<size_t>(std::min(done, bytes - done));
    check(cudaMemcpyAsync(to + done, to, more, cudaMemcpyDeviceToDevice, stream), kName);
  }
  return memory;
}

std::vector<float> ends_of(const void* result, int64_t elements, DType dtype, cudaStream_t stream) {
  const int64_t element_bytes = bytes_per_element(dtype), count = std::min(elements, kNumbers);
  std::vector<float> found;
  for (const int64_t begin : {int64_t{0}, elements - count}) {
    std::vector<std::byte> stored(static_cast<size_t>(count * element_bytes));
    const auto* from = static_cast<const char*>(result) + begin * element_bytes;
    check(cudaMemcpyAsync(stored.data(), from, stored.size(), cudaMemcpyDeviceToHost, stream), kName);
    check(cudaStreamSynchronize(stream), kName);
    const std::vector<float> numbers = from_stored<float>(stored, {dtype, element_bytes});
    found.insert(found.end(), numbers.begin(), numbers.end());
  }
  return found;
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
