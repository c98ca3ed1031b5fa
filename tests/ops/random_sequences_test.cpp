// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include "tests/catch.h"

#include "core/graph/ops/attention.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/functions.h"
#include "tests/ops/harness.h"
#include "tests/sanitized.h"

using namespace trainer;

namespace {

/// Grows a network of sequences (N, T, K) by operations on its existing tensors; each may be read again.
class RandomSequences {
 public:
  explicit RandomSequences(Sketch& sketch) : sketch_(sketch), build_(sketch.build()) {
    batch_ = 1 + below(3);
    length_ = 2 + below(40);
    samples_ = sketch.integers("samples", batch_, 1000);
    step_ = sketch.integers("step", 1, 1000);
    sequences_.push_back(sketch.input("x", {batch_, length_, 1 + below(20)}));
  }

  void grow(int operations) {
    for (int i = 0; i < operations; ++i) {
      const TensorId x = sequences_[static_cast<size_t>(below(static_cast<int64_t>(sequences_.size())))];
      sequences_.push_back(one_more(x));
    }
    TensorId total = kNone;
    for (const TensorId x : sequences_) {
      const TensorId y = linear(x, 7, true);
      total = total == kNone ? y : build_.emit<Binary>({total, y}, Binary::Kind::add);
    }
    sketch_.output("logits", total);
    sketch_.loss(total);
  }

 private:
  int64_t below(int64_t bound) { return sketch_.random().next_below(bound); }

  TensorId one_more(TensorId x) {
    switch (below(8)) {
      case 0:
      case 1:
        return linear(x, 1 + below(33), below(2) == 0);
      case 2:
        return function(x);
      case 3:
        return merge(x);
      case 4:
        return build_.emit<Dropout>({x, samples_, step_}, DropoutSettings{.p = 0.2, .key = 3});
      default:
        return attention(x);
    }
  }

  /// A weight with outputs about as large as its inputs.
  TensorId linear(TensorId x, int64_t outputs, bool with_bias) {
    const int64_t inputs = build_.shape(x)[2];
    const std::string name = fmt::format("w{}", weights_++);
    const TensorId w = sketch_.parameter(name, {outputs, inputs});
    for (float& value : sketch_.values[name]) value /= std::sqrt(static_cast<float>(inputs));
    const TensorId bias = with_bias ? sketch_.parameter(fmt::format("b{}", weights_++), {outputs}) : kNone;
    return build_.emit<Linear>({x, w, bias});
  }

  TensorId function(TensorId x) {
    TensorId y = kNone;
    const auto chosen = below(static_cast<int64_t>(std::variant_size_v<elementwise::Function>));
    int64_t index = 0;
    for_each_functor([&](auto functor) {
      if (index++ == chosen) y = build_.emit<Unary>({x}, elementwise::Function(functor));
    });
    return y;
  }

  TensorId merge(TensorId x) {
    TensorId other = x;
    for (const TensorId sequence : sequences_) {
      if (build_.shape(sequence) == build_.shape(x)) other = sequence;
    }
    if (below(2) == 0) return build_.emit<Concat>({x, other}, 2);
    return build_.emit<Binary>({x, other}, Binary::Kind::add);
  }

  /// After a tanh, so that scores stay moderate; without a bias, because its gradient for keys would be
  /// nothing but rounding.
  TensorId attention(TensorId x) {
    const TensorId moderate = build_.emit<Unary>({x}, elementwise::Function(elementwise::Tanh{}));
    const TensorId bent = build_.emit<Concat>({moderate, sequences_[0]}, 2);
    const int64_t kv_heads = 1 + below(3), heads = kv_heads * (1 + below(3)), size = 1 + below(18);
    AttentionSettings settings{.heads = heads, .kv_heads = kv_heads, .causal = below(3) > 0};
    if (settings.causal && below(3) == 0) settings.window = 2 + below(length_);
    std::vector<TensorId> inputs(attention_input::kInputCount, kNone);
    if (below(2) == 0) {
      inputs[attention_input::kQ] = linear(bent, (heads + 2 * kv_heads) * size, false);
    } else {
      inputs[attention_input::kQ] = linear(bent, heads * size, false);
      inputs[attention_input::kK] = linear(bent, kv_heads * size, false);
      inputs[attention_input::kV] = linear(x, kv_heads * size, true);
    }
    if (below(4) == 0) {
      settings.dropout = DropoutSettings{.p = 0.2, .key = 5};
      inputs[attention_input::kSample] = samples_;
      inputs[attention_input::kStep] = step_;
    }
    return build_.emit<Attention>(inputs, settings);
  }

  Sketch& sketch_;
  Builder& build_;
  int64_t batch_ = 1, length_ = 1;
  int weights_ = 0;
  TensorId samples_ = kNone, step_ = kNone;
  std::vector<TensorId> sequences_;
};

}  // namespace

TEST_CASE("random networks of sequences train alike on the CPU and in the reference") {
  for (uint64_t seed = 1; seed <= few_or_all<uint64_t>(40, 100); ++seed)
    check_cpu([](Sketch& sketch) { RandomSequences(sketch).grow(6); }, seed);
}

TEST_CASE("random networks of sequences in bf16 train alike on the CPU and in the reference that rounds") {
  for (uint64_t seed = 1; seed <= few_or_all<uint64_t>(10, 30); ++seed)
    check_bf16([](Sketch& sketch) { RandomSequences(sketch).grow(4); }, seed);
}
