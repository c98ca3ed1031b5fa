// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

namespace in = attention_input;

/// One query's row of one head: the keys that it sees, their probabilities, and dropout's factors for these.
struct AttentionRow {
  AttentionSettings::Keys keys{0, 0};
  std::vector<double> p, factor;
  double log_sum = -std::numeric_limits<double>::infinity();
};

/// A call's data for both directions.
class AttentionCall {
 public:
  explicit AttentionCall(const Call& call, const AttentionSettings& settings)
      : e(settings, call.shape_in(in::kQ), call.shape_in(in::kK)),
        scale(settings.factor(e.size)),
        settings_(settings),
        call_(call),
        q_(call.in(in::kQ)),
        k_(e.packed ? q_ : call.in(in::kK)),
        v_(e.packed ? q_ : call.in(in::kV)) {}

  const AttentionSizes e;
  const double scale;

  /// The offset of a head's row in q, in the tensor of keys, in that of values, and in y.
  int64_t q_at(int64_t n, int64_t t, int64_t h) const { return (n * e.queries + t) * e.q_row() + h * e.size; }
  int64_t k_at(int64_t n, int64_t s, int64_t h) const {
    return (n * e.keys + s) * e.kv_row() + e.k_begin() + kv_head(h) * e.size;
  }
  int64_t v_at(int64_t n, int64_t s, int64_t h) const { return k_at(n, s, h) - e.k_begin() + e.v_begin(); }
  int64_t y_at(int64_t n, int64_t t, int64_t h) const { return ((n * e.queries + t) * e.heads + h) * e.size; }
  const double* q(int64_t n, int64_t t, int64_t h) const { return q_ + q_at(n, t, h); }
  const double* k(int64_t n, int64_t s, int64_t h) const { return k_ + k_at(n, s, h); }
  const double* v(int64_t n, int64_t s, int64_t h) const { return v_ + v_at(n, s, h); }

  double dot(const double* a, const double* b) const {
    double sum = 0;
    for (int64_t i = 0; i < e.size; ++i) sum += a[i] * b[i];
    return sum;
  }

  AttentionRow row(int64_t n, int64_t t, int64_t h) const {
    const int64_t first = call_.has_input(in::kFirstPosition) ? call_.in<int32_t>(in::kFirstPosition)[0] : 0;
    const int64_t start = call_.has_input(in::kStart) ? call_.in<int32_t>(in::kStart)[n * e.queries + t] : 0;
    AttentionRow row{.keys = settings_.keys_of(first + t, e.keys, start), .p = {}, .factor = {}};
    for (int64_t s = row.keys.first; s < row.keys.end; ++s) {
      row.p.push_back(scale * dot(q(n, t, h), k(n, s, h)));
      row.factor.push_back(factor(n, t, h, s));
    }
    if (row.p.empty()) return row;
    const double largest = *std::ranges::max_element(row.p);
    double sum = 0;
    for (const double score : row.p) sum += std::exp(score - largest);
    row.log_sum = largest + std::log(sum);
    for (double& score : row.p) score = std::exp(score - row.log_sum);
    return row;
  }

 private:
  int64_t kv_head(int64_t h) const { return h / (e.heads / e.kv_heads); }

  /// Word e % 4 of the block e / 4 decides about element e of a sample's probabilities.
  double factor(int64_t n, int64_t t, int64_t h, int64_t s) const {
    if (!settings_.dropout) return 1;
    const int64_t element = AttentionSettings::element(settings_.first_head + h, t, s, e.queries, e.keys);
    const Words words = settings_.dropout->block(element / 4, call_.in<int32_t>(in::kSample)[n],
                                                 call_.in<int32_t>(in::kStep)[0]);
    return static_cast<double>(settings_.dropout->factor(words.v[element % 4]));
  }

  const AttentionSettings& settings_;
  const Call& call_;
  const double *q_, *k_, *v_;
};

/// Calls visit(sample, query, head) for every row of probabilities.
template <class Visit>
void for_each_attention_row(const AttentionSizes& e, const Visit& visit) {
  for (int64_t n = 0; n < e.samples; ++n) {
    for (int64_t t = 0; t < e.queries; ++t) {
      for (int64_t h = 0; h < e.heads; ++h) visit(n, t, h);
    }
  }
}

void attention(const Call& call) {
  const AttentionCall c(call, call.as<Attention>().settings);
  for_each_attention_row(c.e, [&](int64_t n, int64_t t, int64_t h) {
    const AttentionRow row = c.row(n, t, h);
    double* y = call.out(Attention::kY) + c.y_at(n, t, h);
    std::fill_n(y, c.e.size, 0.0);
    for (size_t j = 0; j < row.p.size(); ++j) {
      const double* v = c.v(n, row.keys.first + static_cast<int64_t>(j), h);
      for (int64_t i = 0; i < c.e.size; ++i) y[i] += row.factor[j] * row.p[j] * v[i];
    }
    if (call.has_output(Attention::kLogSum))
      call.out(Attention::kLogSum)[c.e.log_sum_at(n, h, t)] = row.log_sum;
  });
}

/// With p the probabilities, f dropout's factors and dp = f * (dy . v):
/// dv += f * p * dy, ds = p * (dp - sum(p * dp)), dq += scale * ds * k, dk += scale * ds * q.
/// sum(p * dp) is dy . y, with y as stored: if that is rounded, all backends read the rounded one.
void attention_backward(const Call& call) {
  const AttentionCall c(call, call.as<AttentionBackward>().settings);
  const AttentionSizes& e = c.e;
  std::vector<double> unwanted(
      static_cast<size_t>(std::max(call.count_in(in::kQ), e.packed ? int64_t{0} : call.count_in(in::kK))));
  auto gradient = [&](size_t i) { return call.has_output(i) ? call.out(i) : unwanted.data(); };
  double* dq = gradient(AttentionBackward::kDq);
  double* dk = e.packed ? dq : gradient(AttentionBackward::kDk);
  double* dv = e.packed ? dq : gradient(AttentionBackward::kDv);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.has_output(i)) std::fill_n(call.out(i), call.count_out(i), 0.0);
  }
  for_each_attention_row(e, [&](int64_t n, int64_t t, int64_t h) {
    const AttentionRow row = c.row(n, t, h);
    const double *dy = call.in(in::kDy) + c.y_at(n, t, h), *q = c.q(n, t, h);
    const double mean = c.dot(dy, call.in(in::kY) + c.y_at(n, t, h));
    for (size_t j = 0; j < row.p.size(); ++j) {
      const int64_t s = row.keys.first + static_cast<int64_t>(j);
      const double dp = row.factor[j] * c.dot(dy, c.v(n, s, h));
      const double ds = c.scale * row.p[j] * (dp - mean);
      for (int64_t i = 0; i < e.size; ++i) {
        dq[c.q_at(n, t, h) + i] += ds * c.k(n, s, h)[i];
        dk[c.k_at(n, s, h) + i] += ds * q[i];
        dv[c.v_at(n, s, h) + i] += row.factor[j] * row.p[j] * dy[i];
      }
    }
  });
}

}  // namespace

void add_attention(Loops& loops) {
  loops[typeid(Attention)] = attention;
  loops[typeid(AttentionBackward)] = attention_backward;
}

}  // namespace trainer::reference
