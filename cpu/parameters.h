// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "core/graph/ops/optimizer_steps.h"
#include "cpu/handler.h"
#include "cpu/parallel.h"

namespace trainer::cpu {

/// Where one parameter's tensors lie; moments that it has not are null.
struct Arrays {
  const float *w, *g, *m, *v;
  float *new_w, *new_m, *new_v;

  /// Those of the elements from `begin` on.
  Arrays from(int64_t begin) const {
    auto moved = [begin](auto* array) { return array == nullptr ? nullptr : array + begin; };
    return {moved(w), moved(g), moved(m), moved(v), moved(new_w), moved(new_m), moved(new_v)};
  }
};

/// All parameters of a step, end to end in one row that is divided among the threads.
class Parameters {
 public:
  Parameters(const OpContext& context, const Choice& choice, const Slots& slots)
      : op_(static_cast<const OptimizerStep&>(context.op)), slots_(slots) {
    for (size_t p = 0; p < op_.parameters(); ++p) {
      const size_t first = op_.input_of(p);
      counts_.push_back(stored_elements(choice.inputs[first], context.inputs[first].shape));
      begins_.push_back(length_);
      length_ += (counts_[p] + kLine - 1) / kLine * kLine;
    }
  }

  size_t size() const { return counts_.size(); }
  int64_t count(size_t p) const { return counts_[p]; }

  Arrays arrays(size_t p) const {
    auto in = [&](size_t i) {
      return i < 2 + op_.moments ? at<const float>(slots_.inputs[op_.input_of(p) + i]) : nullptr;
    };
    auto out = [&](size_t i) {
      return i < 1 + op_.moments ? at<float>(slots_.outputs[op_.output_of(p) + i]) : nullptr;
    };
    return {in(0), in(1), in(2), in(3), out(0), out(1), out(2)};
  }

  /// Calls body(p, arrays, begin, end) on blocks of each parameter's elements. Every core has read the
  /// weights since they were last written. A store to a line that another core holds too waits for that core;
  /// in a loop over four arrays those waits add up to five times the work, while a pass that only claims the
  /// lines of one block overlaps them (measured: docs/benchmarks.md).
  template <class Body>
  void walk(const Body& body) const {
    parallel_elements(length_, [&](int64_t begin, int64_t end) {
      auto p =
          static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin() - 1);
      for (; p < size() && begins_[p] < end; ++p) {
        const Arrays arrays = this->arrays(p);
        volatile float* claimed = arrays.new_w;
        const int64_t stop = std::min(counts_[p], end - begins_[p]);
        for (int64_t from = std::max<int64_t>(0, begin - begins_[p]); from < stop; from += kBlock) {
          const int64_t to = std::min(stop, from + kBlock);
          for (int64_t i = from; i < to; i += kLine) claimed[i] = arrays.w[i];
          body(p, arrays, from, to);
        }
      }
    });
  }

  /// Everything stays as it was: copied, unless it is computed where it lies.
  void keep() const {
    auto copy = [](const float* from, float* to, int64_t count) {
      if (from != to && to != nullptr) std::copy(from, from + count, to);
    };
    for (size_t p = 0; p < size(); ++p) {
      const Arrays arrays = this->arrays(p);
      copy(arrays.w, arrays.new_w, counts_[p]);
      copy(arrays.m, arrays.new_m, counts_[p]);
      copy(arrays.v, arrays.new_v, counts_[p]);
    }
  }

 private:
  static constexpr int64_t kBlock = 4096, kLine = 16;

  const OptimizerStep& op_;
  Slots slots_;
  std::vector<int64_t> counts_, begins_;  ///< begins_: in the row, at multiples of a cache line
  int64_t length_ = 0;
};

}  // namespace trainer::cpu
