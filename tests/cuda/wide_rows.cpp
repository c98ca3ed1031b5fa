// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include "tests/catch.h"

#include "core/engine/planner.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/linear.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/two_backends.h"

namespace trainer {
namespace {

constexpr int64_t kClasses = 1031;  // wide and odd, like the vocabulary of GPT-2

struct Head {
  DType dtype;
  bool bias, relu, transposed, shown;  ///< shown: the logits are an output, row-major as all outputs
};

/// Logits of 3 samples with 5 positions each, and their loss.
Draft draft_head(const Head& head) {
  return [=](Sketch& sketch) {
    Builder& build = sketch.build();
    const auto stored = [&](const char* name, const Shape& shape) {
      const TensorId wide = sketch.parameter(name, shape);
      return head.dtype == DType::f32 ? wide : build.emit<Cast>({wide}, head.dtype);
    };
    const TensorId x = stored("x", {3, 5, 24}),
                   w = stored("w", head.transposed ? Shape{24, kClasses} : Shape{kClasses, 24}),
                   b = head.bias ? stored("b", {kClasses}) : kNone;
    const auto linear =
        std::make_shared<Linear>(head.relu ? LinearFunction::relu : LinearFunction::none, head.transposed);
    const TensorId logits = build.emit_all(linear, {x, w, b})[0];
    const TensorId labels = sketch.integers("labels", {3, 5}, kClasses),
                   weights = sketch.input("weights", {3}, Values::positive);
    const TensorId loss = build.emit<CrossEntropy>({logits, labels, weights}, 0.1);
    sketch.output("loss", loss);
    if (head.dtype == DType::f32) sketch.output("hits", build.emit<TopK>({logits, labels, weights}, 300));
    if (head.shown)
      sketch.output("logits", head.dtype == DType::f32 ? logits : build.emit<Cast>({logits}, DType::f32));
    sketch.loss(loss);
  };
}

}  // namespace

TEST_CASE("wide rows of an odd width are stored with gaps, and agree with the reference") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Linear op;
    OpContext context{.op = op, .inputs = {{{15, 24}, dtype}, {{kClasses, 24}, dtype}}, .outputs = {}};
    context.inputs.resize(Linear::kInputs);
    context.outputs = op.infer(context.inputs);
    const Layout y = gpu->planner->select(context, OpenLayouts(Linear::kInputs)).outputs[Linear::kY];
    REQUIRE(!y.row_major());
    CHECK(y.strides[0] * bytes_per_element(dtype) % 128 == 0);
    for (const int choice : {0, 1, 2, 3, 4, 5, 8, 9}) {
      const Head head{dtype, (choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0, (choice & 8) != 0};
      INFO(to_string(dtype) << (head.bias ? " bias" : "") << (head.relu ? " relu" : "")
                            << (head.transposed ? " transposed" : "") << (head.shown ? " shown" : ""));
      check_backend(*gpu, draft_head(head), 1, dtype == DType::f32 ? Tolerances{} : narrow_tolerances(dtype));
    }
  }
}

}  // namespace trainer
