// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/graph/ops/optimizer_steps.h"
#include "cpu/handler.h"
#include "cpu/parallel.h"

namespace trainer::cpu {
namespace {

/// Source and destination are the same memory where the plan says so, and may be different memory otherwise.
TRAINER_MULTIVERSION void sgd_range(SgdRule rule, float lr, float scale, const float* w, const float* g,
                                    const float* m, float* new_w, float* new_m, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float weight = w[i], moment = m[i];
    rule(weight, scale * g[i], moment, lr);
    new_w[i] = weight;
    new_m[i] = moment;
  }
}

TRAINER_MULTIVERSION void plain_sgd_range(SgdRule rule, float lr, float scale, const float* w, const float* g,
                                          float* new_w, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float weight = w[i], moment = 0;
    rule(weight, scale * g[i], moment, lr);
    new_w[i] = weight;
  }
}

struct AdamWScalars {
  float lr, scale, correction1, root_correction2;
};

TRAINER_MULTIVERSION void adamw_range(AdamWRule rule, AdamWScalars s, const float* w, const float* g,
                                      const float* m, const float* v, float* new_w, float* new_m,
                                      float* new_v, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float weight = w[i], first = m[i], second = v[i];
    rule(weight, s.scale * g[i], first, second, s.lr, s.correction1, s.root_correction2);
    new_w[i] = weight;
    new_m[i] = first;
    new_v[i] = second;
  }
}

TRAINER_MULTIVERSION double square_sum(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

/// Calls body(begin, end) on blocks of [0, count), divided among the threads, for a rule that computes `next`
/// from `weights` (often the same memory). Every core has read the weights since they were last written. A
/// store to a line that another core holds too waits for that core; in a loop over four arrays those waits
/// add up to five times the work, while a pass that only claims the lines of one block overlaps them
/// (measured: docs/benchmarks.md).
template <class Body>
void update_weights(int64_t count, void* const* weights, void* const* next, const Body& body) {
  constexpr int64_t kBlock = 4096, kLine = 16;
  parallel_elements(count, [&](int64_t begin, int64_t end) {
    const float* from = at<const float>(weights);
    volatile float* claimed = at<float>(next);
    for (int64_t block = begin; block < end; block += kBlock) {
      const int64_t stop = std::min(end, block + kBlock);
      for (int64_t i = block; i < stop; i += kLine) claimed[i] = from[i];
      body(block, stop);
    }
  });
}

float scale_of(void* const* slot) {
  return slot == nullptr ? 1.0f : *at<const float>(slot);
}

/// One walk of SGD over inputs w, g, m or absent -> w', m'.
void run_sgd(const SgdRule& rule, float lr, float scale, int64_t count, const std::vector<void* const*>& in,
             const std::vector<void* const*>& out) {
  update_weights(count, in[0], out[0], [&](int64_t begin, int64_t end) {
    const float *w = at<const float>(in[0]) + begin, *g = at<const float>(in[1]) + begin;
    float* new_w = at<float>(out[0]) + begin;
    if (in[2] == nullptr) {
      plain_sgd_range(rule, lr, scale, w, g, new_w, end - begin);
    } else {
      sgd_range(rule, lr, scale, w, g, at<const float>(in[2]) + begin, new_w, at<float>(out[1]) + begin,
                end - begin);
    }
  });
}

std::unique_ptr<Kernel> compile_sgd(const OpContext& context, const Choice& choice, const Slots& slots) {
  const SgdRule rule = static_cast<const Sgd&>(context.op).rule;
  const int64_t count = stored_elements(choice.inputs[0], context.inputs[0].shape);
  return kernel([=, in = slots.inputs, out = slots.outputs] {
    run_sgd(rule, *at<const float>(in[3]), scale_of(in[4]), count, in, out);
  });
}

/// The ratio multiplies the gradient and the decay, so that the rest is SGD.
std::unique_ptr<Kernel> compile_lars(const OpContext& context, const Choice& choice, const Slots& slots) {
  const Lars op = static_cast<const Lars&>(context.op);
  const int64_t count = stored_elements(choice.inputs[0], context.inputs[0].shape);
  return kernel([=, in = slots.inputs, out = slots.outputs] {
    const double scale = scale_of(in[4]);
    const double weight_norm = std::sqrt(square_sum(at<const float>(in[0]), count));
    const double gradient_norm = scale * std::sqrt(square_sum(at<const float>(in[1]), count));
    const double ratio = op.ratio(weight_norm, gradient_norm);
    SgdRule rule = op.rule;
    rule.weight_decay *= ratio;
    run_sgd(rule, *at<const float>(in[3]), static_cast<float>(ratio * scale), count, in, out);
  });
}

std::unique_ptr<Kernel> compile_adamw(const OpContext& context, const Choice& choice, const Slots& slots) {
  const AdamWRule rule = static_cast<const AdamW&>(context.op).rule;
  const int64_t count = stored_elements(choice.inputs[0], context.inputs[0].shape);
  return kernel([=, in = slots.inputs, out = slots.outputs] {
    const double t = *at<const int32_t>(in[5]) + 1.0;
    const AdamWScalars scalars{
        .lr = *at<const float>(in[4]),
        .scale = scale_of(in[6]),
        .correction1 = static_cast<float>(1 - std::pow(rule.beta1, t)),
        .root_correction2 = static_cast<float>(std::sqrt(1 - std::pow(rule.beta2, t)))};
    update_weights(count, in[0], out[0], [&](int64_t begin, int64_t end) {
      adamw_range(rule, scalars, at<const float>(in[0]) + begin, at<const float>(in[1]) + begin,
                  at<const float>(in[2]) + begin, at<const float>(in[3]) + begin, at<float>(out[0]) + begin,
                  at<float>(out[1]) + begin, at<float>(out[2]) + begin, end - begin);
    });
  });
}

std::unique_ptr<Kernel> compile_clip(const OpContext& context, const Choice& choice, const Slots& slots) {
  const double max_norm = static_cast<const ClipByNorm&>(context.op).max_norm;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    counts.push_back(stored_elements(choice.inputs[i], context.inputs[i].shape));
  }
  return kernel([=, in = slots.inputs, out = slots.outputs] {
    double sum = 0;
    for (size_t i = 0; i < in.size(); ++i) sum += square_sum(at<const float>(in[i]), counts[i]);
    const double norm = std::sqrt(sum);
    *at<float>(out[0]) = static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
    if (out[1] != nullptr) *at<float>(out[1]) = static_cast<float>(norm);
  });
}

/// Gradients stay in whatever layout they have: padding is zero and adds nothing.
Choice select_clip(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) choice.inputs[i] = inputs[i].value_or(Layout{});
  return choice;
}

std::unique_ptr<Kernel> compile_lookup(const OpContext& context, const Choice&, const Slots& slots) {
  const int64_t last = context.inputs[0].shape[0] - 1;
  return kernel([=, table = slots.inputs[0], index = slots.inputs[1], y = slots.outputs[0]] {
    *at<float>(y) = at<const float>(table)[std::min<int64_t>(*at<const int32_t>(index), last)];
  });
}

std::unique_ptr<Kernel> compile_increment(const OpContext&, const Choice&, const Slots& slots) {
  return kernel([x = slots.inputs[0], y = slots.outputs[0]] { *at<int32_t>(y) = *at<const int32_t>(x) + 1; });
}

}  // namespace

void add_optimizer(Handlers& handlers) {
  auto same = [](const OpContext& context, const OpenLayouts& inputs) {
    return select_same(context, inputs, true);
  };
  handlers[typeid(Sgd)] = {same, compile_sgd, {}};
  handlers[typeid(Lars)] = {same, compile_lars, {}};
  handlers[typeid(AdamW)] = {same, compile_adamw, {}};
  handlers[typeid(ClipByNorm)] = {select_clip, compile_clip, {}};
  handlers[typeid(TableLookup)] = {select_row_major, compile_lookup, {}};
  handlers[typeid(Increment)] = {select_row_major, compile_increment, {}};
}

}  // namespace trainer::cpu
