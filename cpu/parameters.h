// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "core/graph/ops/optimizer_steps.h"
#include "cpu/handler.h"
#include "cpu/parallel.h"

namespace trainer::cpu {

/// Addresses of one parameter's tensors; moments that it lacks are null.
struct Arrays {
  const float *w, *g;
  float* new_w;
  std::array<const float*, update::kMostMoments> moments;
  std::array<float*, update::kMostMoments> new_moments;

  /// Those of the elements from `begin` on.
  Arrays from(int64_t begin) const {
    Arrays moved{w + begin, g + begin, new_w + begin, moments, new_moments};
    for (size_t i = 0; i < moments.size(); ++i) {
      if (moments[i] == nullptr) break;
      moved.moments[i] += begin;
      moved.new_moments[i] += begin;
    }
    return moved;
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
    const size_t in = op_.input_of(p), out = op_.output_of(p);
    Arrays found{at<const float>(slots_.inputs[in]),
                 at<const float>(slots_.inputs[in + 1]),
                 at<float>(slots_.outputs[out]),
                 {},
                 {}};
    for (size_t i = 0; i < op_.moments; ++i) {
      found.moments[i] = at<const float>(slots_.inputs[in + 2 + i]);
      found.new_moments[i] = at<float>(slots_.outputs[out + 1 + i]);
    }
    return found;
  }

  /// Calls body(p, arrays, begin, end) on blocks of each parameter's elements. Every core has read the
  /// weights since they were last written. A store to a line that another core also holds waits for that
  /// core. In a loop over four arrays those waits add up to five times the work; a pass that only claims the
  /// lines of one block overlaps them (measured: docs/benchmarks.md).
  template <class Body>
  void for_each_block(const Body& body) const {
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

  /// Everything stays as it was: copied, unless it is computed in place.
  void keep() const {
    auto copy = [](const float* from, float* to, int64_t count) {
      if (from != to) std::copy(from, from + count, to);
    };
    for (size_t p = 0; p < size(); ++p) {
      const Arrays arrays = this->arrays(p);
      copy(arrays.w, arrays.new_w, counts_[p]);
      for (size_t i = 0; i < op_.moments; ++i) copy(arrays.moments[i], arrays.new_moments[i], counts_[p]);
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
