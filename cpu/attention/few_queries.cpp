// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/few_queries.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/math.h"
#include "core/base/multiversion.h"
#include "cpu/attention/rows.h"
#include "cpu/handler.h"

namespace trainer::cpu::attention {
namespace {

constexpr int64_t kFewQueries = 4;

/// scores[i] = factor * q . k[i]; returns the largest.
template <class T>
TRAINER_MULTIVERSION float score(const T* q, float factor, const T* k, int64_t row, int64_t count,
                                 int64_t size, float* scores) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i, k += row) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < size; ++d) sum += float(q[d]) * float(k[d]);
    scores[i] = factor * sum;
    largest = scores[i] > largest ? scores[i] : largest;
  }
  return largest;
}

/// Scores to exp(score - largest); returns their sum, which is NaN if a score is.
TRAINER_MULTIVERSION float soften(float* scores, int64_t count, float largest) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const float difference = scores[i] - largest;
    scores[i] =
        difference == difference ? math::exp(difference) : difference;  // NOLINT(misc-redundant-expression)
    sum += scores[i];
  }
  return sum;
}

/// y = factor * the sum of shares[i] v[i].
template <class T>
TRAINER_MULTIVERSION void mix(const float* shares, float factor, const T* v, int64_t row, int64_t count,
                              int64_t size, float* sums, T* y) {
  std::fill_n(sums, size, 0.0f);
  for (int64_t i = 0; i < count; ++i, v += row) {
    const float share = shares[i];
#pragma omp simd
    for (int64_t d = 0; d < size; ++d) sums[d] += share * float(v[d]);
  }
#pragma omp simd
  for (int64_t d = 0; d < size; ++d) put(factor * sums[d], y[d]);
}

class ForwardOfFew final : public Forward {
 public:
  explicit ForwardOfFew(const Use& use) : use_(use) {
    Carver carver(nullptr);
    carver.take(use.sizes.keys);
    carver.take(use.sizes.size);
    room_floats_ = carver.used();
  }

  int64_t workspace_floats() const override { return use_.threads * room_floats_; }

  void run(const Given& given, void* y, float* log_sum, float* workspace) const override {
    const AttentionSizes& e = use_.sizes;
    const int64_t rows = e.samples * e.queries * e.heads;
    with_storage(use_.dtype, [&](auto element) {
      using T = decltype(element);
#pragma omp parallel for schedule(static) num_threads(use_.threads) if (rows > 1)
      for (int64_t row = 0; row < rows; ++row) {
        const float found =
            compute<T>(given, row, static_cast<T*>(y), workspace + omp_get_thread_num() * room_floats_);
        const int64_t head = row % e.heads, query = row / e.heads % e.queries;
        if (log_sum != nullptr) log_sum[e.log_sum_at(row / e.heads / e.queries, head, query)] = found;
      }
    });
  }

 private:
  /// One head of one query; returns the logarithm of its sum of exponentials.
  template <class T>
  float compute(const Given& given, int64_t row, T* y, float* room) const {
    const AttentionSizes& e = use_.sizes;
    const int64_t head = row % e.heads, query = row / e.heads % e.queries, sample = row / e.heads / e.queries;
    const int64_t position = query + (given.first == nullptr ? 0 : *given.first);
    const int64_t start = given.start == nullptr ? 0 : given.start[sample * e.queries + query];
    const AttentionSettings::Keys seen = use_.settings.keys_of(position, e.keys, start);
    const int64_t count = std::max<int64_t>(0, seen.end - seen.first);
    const int64_t key = (sample * e.keys + seen.first) * e.kv_row() + head / use_.group() * e.size;
    Carver carver(room);
    float *scores = carver.take(e.keys), *sums = carver.take(e.size);
    const T* q = static_cast<const T*>(given.q) + (sample * e.queries + query) * e.q_row() + head * e.size;
    const float largest =
        score(q, static_cast<float>(use_.settings.factor(e.size)),
              static_cast<const T*>(given.k) + key + e.k_begin(), e.kv_row(), count, e.size, scores);
    const float sum = soften(scores, count, largest);
    mix(scores, count == 0 ? 0.0f : 1 / sum, static_cast<const T*>(given.v) + key + e.v_begin(), e.kv_row(),
        count, e.size, sums, y + row * e.size);
    return count == 0 ? -std::numeric_limits<float>::infinity() : largest + std::log(sum);
  }

  Use use_;
  int64_t room_floats_ = 0;
};

}  // namespace

bool has_few_queries(const Use& use) {
  return use.sizes.queries <= kFewQueries && !use.settings.dropout;
}

std::unique_ptr<Forward> make_forward_of_few(const Use& use) {
  return std::make_unique<ForwardOfFew>(use);
}

}  // namespace trainer::cpu::attention
