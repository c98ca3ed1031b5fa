// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/engine/step_layouts.h"
#include "core/graph/ops/optimizer_steps.h"
#include "cpu/handler.h"
#include "cpu/parallel.h"
#include "cpu/parameters.h"
#include "cpu/square_sum.h"

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

float value_or(void* const* slot, float otherwise) {
  return slot == nullptr ? otherwise : *at<const float>(slot);
}

/// A kernel that runs update(parameters, lr, scale, updates so far), unless it is to be skipped.
template <class Update>
std::unique_ptr<Kernel> step_kernel(const OpContext& context, const Choice& choice, const Slots& slots,
                                    Update update) {
  return kernel([=, parameters = Parameters(context, choice, slots), in = slots.inputs]() mutable {
    if (value_or(in[OptimizerStep::kSkip], 0) != 0) return parameters.keep();
    void* const* updates = in[OptimizerStep::kUpdates];
    update(parameters, *at<const float>(in[OptimizerStep::kLr]), value_or(in[OptimizerStep::kScale], 1),
           updates == nullptr ? 0 : *at<const int32_t>(updates));
  });
}

void sgd_block(const SgdRule& rule, float lr, float scale, const Arrays& a, int64_t begin, int64_t end) {
  if (a.m == nullptr) {
    plain_sgd_range(rule, lr, scale, a.w + begin, a.g + begin, a.new_w + begin, end - begin);
  } else {
    sgd_range(rule, lr, scale, a.w + begin, a.g + begin, a.m + begin, a.new_w + begin, a.new_m + begin,
              end - begin);
  }
}

std::unique_ptr<Kernel> compile_sgd(const OpContext& context, const Choice& choice, const Slots& slots) {
  const Sgd& op = static_cast<const Sgd&>(context.op);
  return step_kernel(context, choice, slots, [&op](const Parameters& all, float lr, float scale, int32_t) {
    all.walk([&](size_t p, const Arrays& a, int64_t begin, int64_t end) {
      sgd_block(op.rule(p), lr, scale, a, begin, end);
    });
  });
}

/// The ratio multiplies the gradient and the decay, so that the rest is SGD.
std::unique_ptr<Kernel> compile_lars(const OpContext& context, const Choice& choice, const Slots& slots) {
  const Lars& op = static_cast<const Lars&>(context.op);
  std::vector<double> ratios(op.parameters());
  return step_kernel(
      context, choice, slots, [&op, ratios](const Parameters& all, float lr, float scale, int32_t) mutable {
        parallel_ranges(static_cast<int64_t>(all.size()), 1, 1, [&](int64_t begin, int64_t end) {
          for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
            const Arrays a = all.arrays(p);
            ratios[p] = op.ratio(p, std::sqrt(square_sum(a.w, all.count(p))),
                                 double{scale} * std::sqrt(square_sum(a.g, all.count(p))));
          }
        });
        all.walk([&](size_t p, const Arrays& a, int64_t begin, int64_t end) {
          SgdRule rule = op.rule(p);
          rule.weight_decay *= ratios[p];
          sgd_block(rule, lr, static_cast<float>(ratios[p] * scale), a, begin, end);
        });
      });
}

std::unique_ptr<Kernel> compile_adamw(const OpContext& context, const Choice& choice, const Slots& slots) {
  const AdamW& op = static_cast<const AdamW&>(context.op);
  return step_kernel(context, choice, slots,
                     [&op](const Parameters& all, float lr, float scale, int32_t updates) {
                       const double t = updates + 1.0;
                       const AdamWRule first = op.rule(0);
                       const AdamWScalars scalars{
                           .lr = lr,
                           .scale = scale,
                           .correction1 = static_cast<float>(1 - std::pow(first.beta1, t)),
                           .root_correction2 = static_cast<float>(std::sqrt(1 - std::pow(first.beta2, t)))};
                       all.walk([&](size_t p, const Arrays& a, int64_t begin, int64_t end) {
                         adamw_range(op.rule(p), scalars, a.w + begin, a.g + begin, a.m + begin, a.v + begin,
                                     a.new_w + begin, a.new_m + begin, a.new_v + begin, end - begin);
                       });
                     });
}

Choice select_step(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  lay_out_step(context, inputs, choice);
  return choice;
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
  return kernel([in = slots.inputs, y = slots.outputs[0]] {
    const bool skip = in.size() > 1 && value_or(in[1], 0) != 0;
    *at<int32_t>(y) = *at<const int32_t>(in[0]) + (skip ? 0 : 1);
  });
}

}  // namespace

void add_optimizer(Handlers& handlers) {
  handlers[typeid(Sgd)] = {select_step, compile_sgd, {}};
  handlers[typeid(Lars)] = {select_step, compile_lars, {}};
  handlers[typeid(AdamW)] = {select_step, compile_adamw, {}};
  handlers[typeid(ClipByNorm)] = {select_clip, compile_clip, {}};
  handlers[typeid(TableLookup)] = {select_row_major, compile_lookup, {}};
  handlers[typeid(Increment)] = {select_row_major, compile_increment, {}};
}

}  // namespace trainer::cpu
