// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gated.h"

#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

template <class G, class T>
TRAINER_MULTIVERSION void open_range(G g, const T* gate, const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(g(float(gate[i]), float(x[i])), y[i]);
}

template <bool kHasDx, class G, class T>
TRAINER_MULTIVERSION void gradient_range(G g, const T* dy, const T* gate, const T* x, T* dgate, T* dx,
                                         int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float of_gate, of_x;
    g.gradient(float(dy[i]), float(gate[i]), float(x[i]), of_gate, of_x);
    put(of_gate, dgate[i]);
    if constexpr (kHasDx) put(of_x, dx[i]);
  }
}

std::unique_ptr<Kernel> compile_gated(const OpContext& context, const Choice& choice, const Slots& slots) {
  const int64_t count = stored_elements(choice.inputs[0], context.inputs[0].shape);
  auto make = [&](auto element, auto f) {
    using T = decltype(element);
    return kernel(
        [=, gate = slots.inputs[Gated::kGate], x = slots.inputs[Gated::kX], y = slots.outputs[Gated::kY]] {
          parallel_elements(count, [=](int64_t begin, int64_t end) {
            open_range(elementwise::Gate{f}, at<const T>(gate) + begin, at<const T>(x) + begin,
                       at<T>(y) + begin, end - begin);
          });
        });
  };
  return with_storage(context.inputs[Gated::kX].dtype, [&](auto element) {
    return std::visit([&](auto f) { return make(element, f); },
                      static_cast<const Gated&>(context.op).function);
  });
}

std::unique_ptr<Kernel> compile_gated_backward(const OpContext& context, const Choice& choice,
                                               const Slots& slots) {
  const int64_t count = stored_elements(choice.inputs[0], context.inputs[0].shape);
  auto make = [&](auto element, auto f) {
    using T = decltype(element);
    return kernel([=, in = slots.inputs, dgate = slots.outputs[GatedBackward::kDgate],
                   dx = slots.outputs[GatedBackward::kDx]] {
      parallel_elements(count, [=](int64_t begin, int64_t end) {
        const T *of_dy = at<const T>(in[GatedBackward::kDy]) + begin,
                *of_gate = at<const T>(in[GatedBackward::kGate]) + begin,
                *of_x = at<const T>(in[GatedBackward::kX]) + begin;
        T* to_gate = at<T>(dgate) + begin;
        const elementwise::Gate g{f};
        if (dx == nullptr)
          return gradient_range<false>(g, of_dy, of_gate, of_x, to_gate, static_cast<T*>(nullptr),
                                       end - begin);
        gradient_range<true>(g, of_dy, of_gate, of_x, to_gate, at<T>(dx) + begin, end - begin);
      });
    });
  };
  return with_storage(context.inputs[GatedBackward::kDy].dtype, [&](auto element) {
    return std::visit([&](auto f) { return make(element, f); },
                      static_cast<const GatedBackward&>(context.op).function);
  });
}

}  // namespace

void add_gated(Handlers& handlers) {
  auto same = [](const OpContext& context, const OpenLayouts& inputs) {
    return select_same(context, inputs, true);
  };
  handlers[typeid(Gated)] = {same, compile_gated, {}};
  handlers[typeid(GatedBackward)] = {same, compile_gated_backward, {}};
}

}  // namespace trainer::cpu
