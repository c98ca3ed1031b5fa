// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace trainer {

/// Places from 0 of different numbers, which may be any.
class Places {
 public:
  explicit Places(std::span<const int32_t> numbers) {
    for (const int32_t number : numbers) places_.emplace(number, places_.size());
  }
  size_t of(int32_t number) const { return places_.at(number); }
  size_t size() const { return places_.size(); }

 private:
  std::map<int32_t, size_t> places_;
};

}  // namespace trainer
