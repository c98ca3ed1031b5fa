// SPDX-License-Identifier: Apache-2.0
#include "core/data/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace trainer {

void in_parallel(size_t count, int64_t threads, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> problems(count);
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        problems[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const auto helpers = std::min(static_cast<int64_t>(count), threads);
    for (int64_t i = 1; i < helpers; ++i) others.emplace_back(take);
    take();
  }
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
}

}  // namespace trainer
