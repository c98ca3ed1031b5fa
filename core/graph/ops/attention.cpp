// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

namespace in = attention_input;

/// Floating point operations for each pair of a query and a key that it sees, and element of a head, as
/// multiply-adds: q . k and p v; backward q . k again, dp, and the gradients of q, k and v.
constexpr double kSeenForwardFlops = 2 * 2, kSeenBackwardFlops = 5 * 2;

void expect_heads(const AttentionSettings& settings) {
  expect(
      settings.heads >= 1 && settings.kv_heads >= 1 && settings.heads % settings.kv_heads == 0,
      fmt::format("heads must be a multiple of kv_heads, got {} and {}", settings.heads, settings.kv_heads));
  expect(settings.window == 0 || settings.causal, "a window is for causal attention only");
}

void expect_attention_sequence(const Shape& shape, const std::string& what, int64_t heads,
                               const std::string& of_heads, const std::string& remedy = "") {
  expect(shape.size() == 3,
         fmt::format("expected {} as a sequence (N, T, features), got shape {}", what, to_string(shape)));
  expect(shape[2] % heads == 0,
         fmt::format("{} has {} features, which {} do not divide{}", what, shape[2], of_heads, remedy));
}

/// The layer that is missing if the packed input has the features of the queries alone.
std::string packing_of(const AttentionSettings& settings, const Shape& x) {
  if (x.size() != 3 || x[2] % settings.heads != 0) return "";
  const int64_t packed = x[2] / settings.heads * (settings.heads + 2 * settings.kv_heads);
  return fmt::format("; put `linear: {}` before it for queries, keys and values of these features", packed);
}

void expect_three_sequences(const AttentionSettings& settings, const Shape& q, const Shape& k,
                            const Shape& v) {
  expect_attention_sequence(q, "the query", settings.heads, fmt::format("{} heads", settings.heads));
  expect_attention_sequence(k, "the key", settings.kv_heads, fmt::format("{} heads", settings.kv_heads));
  expect(k == v, fmt::format("key and value must have one shape, got {} and {}", to_string(k), to_string(v)));
  expect(k[0] == q[0], fmt::format("queries of {} samples met keys of {}, shapes {} and {}", q[0], k[0],
                                   to_string(q), to_string(k)));
  expect(q[2] / settings.heads == k[2] / settings.kv_heads,
         fmt::format("a query head of {} features met a key head of {}: {} features in {} heads and {} in {}",
                     q[2] / settings.heads, k[2] / settings.kv_heads, q[2], settings.heads, k[2],
                     settings.kv_heads));
}

void expect_positions(std::span<const TensorSpec> inputs, const AttentionSizes& e) {
  if (is_given(inputs[in::kFirstPosition])) {
    expect(inputs[in::kFirstPosition] == TensorSpec{{1}, DType::i32},
           "needs one position of the first query");
    expect(!e.packed && e.keys >= e.queries,
           fmt::format("{} queries from a position on need a key and value for each", e.queries));
  } else {
    expect(e.keys == e.queries,
           fmt::format("needs as many keys as queries, got {} and {}", e.keys, e.queries));
  }
  if (is_given(inputs[in::kStart])) {
    expect(
        inputs[in::kStart] == TensorSpec{{e.samples, e.queries}, DType::i32},
        fmt::format("needs the document's start for each of {} queries of {} samples", e.queries, e.samples));
  }
}

AttentionSizes check_attention(const AttentionSettings& settings, std::span<const TensorSpec> inputs) {
  expect_heads(settings);
  expect_one_type(inputs, {in::kQ, in::kK, in::kV});
  const Shape &q = inputs[in::kQ].shape, &k = inputs[in::kK].shape, &v = inputs[in::kV].shape;
  expect(k.empty() == v.empty(), "takes queries, keys and values packed in one input, or all three apart");
  if (k.empty()) {
    expect_attention_sequence(
        q, "the packed input", settings.heads + 2 * settings.kv_heads,
        fmt::format("{} heads of queries and twice {} of keys and values", settings.heads, settings.kv_heads),
        packing_of(settings, q));
  } else {
    expect_three_sequences(settings, q, k, v);
  }
  const AttentionSizes e(settings, q, k);
  expect_positions(inputs, e);
  if (settings.dropout) {
    expect(inputs[in::kSample] == TensorSpec{{e.samples}, DType::i32}, "dropout needs one index per sample");
    expect(inputs[in::kStep] == TensorSpec{{1}, DType::i32}, "dropout needs the step");
  }
  return e;
}

/// Keys seen by the first `queries` positions, each of which sees the last `window` up to its own.
double seen_from_start(double queries, double window) {
  const double few = std::min(queries, window);
  return few * (few + 1) / 2 + (queries - few) * window;
}

/// Pairs of a query and a key that it sees. Queries from a position on count as the last ones.
double pairs_seen(const AttentionSettings& settings, const AttentionSizes& e) {
  const auto queries = static_cast<double>(e.queries), keys = static_cast<double>(e.keys);
  const double heads = static_cast<double>(e.samples) * static_cast<double>(e.heads);
  if (!settings.causal) return heads * queries * keys;
  const double window = settings.window > 0 ? static_cast<double>(settings.window) : keys;
  return heads * (seen_from_start(keys, window) - seen_from_start(keys - queries, window));
}

double attention_flops(const AttentionSettings& settings, std::span<const TensorSpec> inputs,
                       double of_an_element) {
  const AttentionSizes e(settings, inputs[in::kQ].shape, inputs[in::kK].shape);
  return of_an_element * static_cast<double>(e.size) * pairs_seen(settings, e);
}

}  // namespace

void AttentionSettings::describe(AttributeVisitor& visit) const {
  visit("heads", heads);
  visit("kv_heads", kv_heads, {.hidden = kv_heads == heads});
  visit("causal", causal);
  visit("window", window, {.hidden = window == 0});
  visit("scale", scale, {.hidden = scale == 0});
  if (dropout) dropout->describe(visit);
  if (along) trainer::describe(visit, *along);
}

double AttentionSettings::factor(int64_t size) const {
  return scale == 0 ? 1 / std::sqrt(static_cast<double>(size)) : scale;
}

AttentionSizes::AttentionSizes(const AttentionSettings& settings, const Shape& q, const Shape& k)
    : samples(q[0]),
      queries(q[1]),
      keys(k.empty() ? q[1] : k[1]),
      heads(settings.heads),
      kv_heads(settings.kv_heads),
      size(q[2] / (k.empty() ? settings.heads + 2 * settings.kv_heads : settings.heads)),
      packed(k.empty()) {}

std::vector<TensorSpec> Attention::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, in::kInputCount);
  const AttentionSizes e = check_attention(settings, inputs);
  return {{.shape = {e.samples, e.queries, e.heads * e.size}, .dtype = inputs[in::kQ].dtype},
          {.shape = {e.samples, e.heads, e.queries}, .dtype = DType::f32}};
}

std::optional<FeatureCut> Attention::feature_cut(std::span<const TensorSpec> inputs) const {
  const AttentionSizes e(settings, inputs[in::kQ].shape, inputs[in::kK].shape);
  const int64_t q = e.heads * e.size, kv = e.kv_heads * e.size;
  if (e.packed) return FeatureCut{.inputs = {in::kQ}, .of_inputs = {{q, kv, kv}}, .of_output = {q}};
  return FeatureCut{.inputs = {in::kQ, in::kK, in::kV}, .of_inputs = {{q}, {kv}, {kv}}, .of_output = {q}};
}

std::shared_ptr<const Operation> Attention::on_part(const SharedPart& part) const {
  const int64_t ranks = part.along.ranks;
  if (settings.heads % ranks != 0 || settings.kv_heads % ranks != 0) {
    std::vector<int64_t> possible;
    for (int64_t each = 2; each <= settings.kv_heads; ++each) {
      if (settings.kv_heads % each == 0) possible.push_back(each);
    }
    const std::string heads =
        settings.kv_heads == settings.heads
            ? fmt::format("{} heads", settings.heads)
            : fmt::format("{} heads and {} of keys and values", settings.heads, settings.kv_heads);
    const std::string remedy = possible.empty()
                                   ? "use parallelism.shard_parameters"
                                   : fmt::format("parallelism.tensor may be {}", fmt::join(possible, " or "));
    expect(false, fmt::format("{} ranks cannot share {}: {}", ranks, heads, remedy));
  }
  AttentionSettings own = settings;
  own.heads /= ranks;
  own.kv_heads /= ranks;
  own.along = part.along;
  return std::make_shared<Attention>(own);
}

std::vector<TensorId> Attention::gradient(const Backward& backward) const {
  std::vector<TensorId> inputs = backward.node.inputs, gradients(inputs.size(), kNone);
  inputs.insert(inputs.end(), {backward.dy[kY], backward.y(kY), backward.y(kLogSum)});
  const std::vector<TensorId> made =
      backward.build.emit_all(std::make_shared<AttentionBackward>(settings), inputs);
  std::ranges::copy(made, gradients.begin() + in::kQ);
  return gradients;
}

double Attention::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return attention_flops(settings, inputs, kSeenForwardFlops);
}

std::vector<TensorSpec> AttentionBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, in::kLogSum + 1, "needs attention's inputs, dy, y and the log-sum-exp");
  const AttentionSizes e = check_attention(settings, inputs);
  const std::vector<TensorSpec> made = Attention(settings).infer(inputs.first(in::kInputCount));
  const TensorSpec &y = made[Attention::kY], &log_sum = made[Attention::kLogSum];
  expect(inputs[in::kDy] == y && inputs[in::kY] == y && inputs[in::kLogSum] == log_sum,
         "needs dy, y and the log-sum-exp as attention gives them");
  if (e.packed) return {inputs[in::kQ]};
  return {inputs[in::kQ], inputs[in::kK], inputs[in::kV]};
}

double AttentionBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return attention_flops(settings, inputs, kSeenBackwardFlops);
}

/// If keys come from a cache, and no key is later than its query.
bool Attention::is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return settings.causal && !inputs[attention_input::kFirstPosition].shape.empty();
}

}  // namespace trainer
