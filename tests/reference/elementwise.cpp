// SPDX-License-Identifier: Apache-2.0
#include "core/base/math.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/gated.h"
#include "core/graph/ops/stochastic_depth.h"
#include "core/graph/ops/unary.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void unary(const Call& c) {
  auto loop = [&](const auto& f) {
    for (int64_t i = 0, count = c.count_out(Unary::kY); i < count; ++i)
      c.out(Unary::kY)[i] = f(c.in(Unary::kX)[i]);
  };
  std::visit(loop, c.as<Unary>().function);
}

void unary_backward(const Call& c) {
  auto loop = [&](const auto& f) {
    for (int64_t i = 0, count = c.count_out(UnaryBackward::kDx); i < count; ++i)
      c.out(UnaryBackward::kDx)[i] = f.gradient(c.in(UnaryBackward::kSaved)[i], c.in(UnaryBackward::kDy)[i]);
  };
  std::visit(loop, c.as<UnaryBackward>().function);
}

void binary(const Call& c) {
  const auto& op = c.as<Binary>();
  for (int64_t i = 0, count = c.count_out(Binary::kY); i < count; ++i) {
    const double a = c.in(Binary::kA)[i], b = c.in(Binary::kB)[i];
    const double y = op.kind == Binary::Kind::add ? a + b : a * b;
    c.out(Binary::kY)[i] = op.relu ? math::clamp(y, 0.0, op.ceiling) : y;
  }
}

void gated(const Call& c) {
  auto loop = [&](const auto& f) {
    const elementwise::Gate gate{f};
    for (int64_t i = 0, count = c.count_out(Gated::kY); i < count; ++i)
      c.out(Gated::kY)[i] = gate(c.in(Gated::kGate)[i], c.in(Gated::kX)[i]);
  };
  std::visit(loop, c.as<Gated>().function);
}

void gated_backward(const Call& c) {
  using Op = GatedBackward;
  auto loop = [&](const auto& f) {
    const elementwise::Gate gate{f};
    for (int64_t i = 0, count = c.count_out(Op::kDgate); i < count; ++i) {
      double of_gate, of_x;
      gate.gradient(c.in(Op::kDy)[i], c.in(Op::kGate)[i], c.in(Op::kX)[i], of_gate, of_x);
      c.out(Op::kDgate)[i] = of_gate;
      if (c.has_output(Op::kDx)) c.out(Op::kDx)[i] = of_x;
    }
  };
  std::visit(loop, c.as<Op>().function);
}

/// Word e % 4 of the block e / 4 decides about element e of a sample.
void dropout(const Call& c) {
  const DropoutSettings& settings = c.as<Dropout>().settings;
  const int64_t samples = c.shape_in(Dropout::kX)[0], width = c.count_in(Dropout::kX) / samples;
  const int32_t step = c.in<int32_t>(Dropout::kStep)[0];
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t e = 0; e < width; ++e) {
      const Words words = settings.block(e / 4, c.in<int32_t>(Dropout::kSample)[n], step);
      c.out(Dropout::kY)[n * width + e] =
          c.in(Dropout::kX)[n * width + e] * static_cast<double>(settings.factor(words.v[e % 4]));
    }
  }
}

void stochastic_depth(const Call& c) {
  const DropoutSettings& settings = c.as<StochasticDepth>().settings;
  const int64_t width = c.count_in(StochasticDepth::kX) / c.shape_in(StochasticDepth::kX)[0];
  for (int64_t i = 0, count = c.count_in(StochasticDepth::kX); i < count; ++i) {
    const Words words = settings.block(0, c.in<int32_t>(StochasticDepth::kSample)[i / width],
                                       c.in<int32_t>(StochasticDepth::kStep)[0]);
    c.out(StochasticDepth::kY)[i] =
        c.in(StochasticDepth::kX)[i] * static_cast<double>(settings.factor(words.v[0]));
  }
}

}  // namespace

void add_elementwise(Loops& loops) {
  loops[typeid(Unary)] = unary;
  loops[typeid(UnaryBackward)] = unary_backward;
  loops[typeid(Binary)] = binary;
  loops[typeid(Gated)] = gated;
  loops[typeid(GatedBackward)] = gated_backward;
  loops[typeid(Dropout)] = dropout;
  loops[typeid(StochasticDepth)] = stochastic_depth;
}

}  // namespace trainer::reference
