// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/confusion_cells.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/cross_entropy_sums.h"
#include "core/graph/ops/gated.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/functions.h"

namespace trainer {
namespace {

const std::vector<Shape> kMatrices = {{1, 2}, {1, 31}, {3, 11}, {7, 37}, {3, 1031}};

/// Logits that only losses and metrics read: their gradient reuses their memory. The addend is 0, so that no
/// type rounds them.
TensorId passing_logits(Sketch& sketch, const Shape& shape) {
  const TensorId a = sketch.parameter("logits", shape), b = sketch.input("offset", shape);
  std::ranges::fill(sketch.values["offset"], 0.0f);
  return sketch.build().emit<Binary>({a, b}, Binary::Kind::add);
}

/// Losses that ignore the label 1 and weight the classes.
void draft_sums(Sketch& sketch, const Shape& shape, const CrossEntropySettings& how, bool weighs) {
  const int64_t classes = LogitSizes(shape).classes;
  const Shape labels =
      shape.size() == 4 ? Shape{shape[0], shape[2], shape[3]} : Shape(shape.begin(), shape.end() - 1);
  const std::vector<TensorId> inputs{
      passing_logits(sketch, shape), sketch.integers("labels", labels, classes),
      sketch.input("weights", {shape[0]}, Values::positive),
      weighs ? sketch.input("class_weights", {classes}, Values::positive) : kNone};
  Builder& build = sketch.build();
  const auto sums = build.emit_all(std::make_shared<CrossEntropySums>(how), inputs);
  sketch.output("weight", sums[1]);
  sketch.output("valid_targets", sums[2]);
  sketch.output("top1", build.emit<TopK>({inputs[0], inputs[1], inputs[2]}, 1, 1));
  const TensorId scale = sketch.input("scale", {1}, Values::positive);
  const auto mean = build.emit_all(std::make_shared<MeanOverTargets>(), {sums[0], sums[1], scale});
  for (size_t i = 0; i < mean.size(); ++i) sketch.output(fmt::format("mean {}", i), mean[i]);
  sketch.output("loss", sums[0]);
}

void add_cross_entropy_sums_cases(std::vector<KernelCase>& cases) {
  for (const Shape& shape :
       {Shape{1, 2}, Shape{300, 33}, Shape{3, 7, 37}, Shape{2, 5, 3, 7}, Shape{2, 3, 1031}}) {
    for (const double smoothing : {0.0, 0.1}) {
      const bool weighs = smoothing > 0 || shape.size() == 3;
      cases.push_back(
          {fmt::format("cross_entropy_sums {} {}", to_string(shape), smoothing), [=](Sketch& sketch) {
             draft_sums(sketch, shape, {smoothing, 1}, weighs);
           }});
    }
    for (const double gamma : {0.5, 2.0}) {
      const CrossEntropySettings how{.ignore_index = 1, .gamma = gamma};
      cases.push_back({fmt::format("focal {} {}", to_string(shape), gamma),
                       [=](Sketch& sketch) { draft_sums(sketch, shape, how, gamma < 1); }});
    }
  }
}

}  // namespace

KernelCase differentiable(const std::string& name, const std::function<TensorId(Sketch&)>& draft) {
  return {name, [draft](Sketch& sketch) {
            const TensorId y = draft(sketch);
            sketch.output("y", y);
            sketch.loss(y);
          }};
}

void add_elementwise_cases(std::vector<KernelCase>& cases) {
  for_each_functor([&](auto functor) {
    const elementwise::Function f = functor;
    for (const Shape& shape : {Shape{3, 11}, Shape{2, 37}}) {
      cases.push_back(
          differentiable(fmt::format("{} {}", function_name(f), to_string(shape)), [=](Sketch& sketch) {
            return sketch.build().emit<Unary>({sketch.parameter("x", shape, Values::off_zero)}, f);
          }));
    }
  });
  for_each_functor([&](auto functor) {
    const elementwise::Function f = functor;
    for (const Shape& shape : {Shape{3, 11}, Shape{2, 40}}) {
      cases.push_back(
          differentiable(fmt::format("{} gate {}", function_name(f), to_string(shape)), [=](Sketch& sketch) {
            const TensorId gate = sketch.parameter("gate", shape, Values::off_zero);
            return sketch.build().emit<Gated>({gate, sketch.parameter("x", shape)}, f);
          }));
      cases.push_back(differentiable(
          fmt::format("{} gate of an input {}", function_name(f), to_string(shape)), [=](Sketch& sketch) {
            const TensorId gate = sketch.parameter("gate", shape, Values::off_zero);
            return sketch.build().emit<Gated>({gate, sketch.input("x", shape)}, f);
          }));
    }
  });
  for (const Shape& shape : kMatrices) {
    cases.push_back(differentiable(fmt::format("sum with relu {}", to_string(shape)), [=](Sketch& sketch) {
      const TensorId a = sketch.parameter("a", shape, Values::off_zero), b = sketch.input("b", shape);
      for (float& value : sketch.values["b"]) value = value < 0 ? 0.0f : 16.0f;
      return sketch.build().emit<Binary>({a, b}, Binary::Kind::add, true, 6.0);
    }));
    for (const auto kind : {Binary::Kind::add, Binary::Kind::mul}) {
      cases.push_back(differentiable(fmt::format("binary {}", to_string(shape)), [=](Sketch& sketch) {
        const TensorId a = sketch.parameter("a", shape), b = sketch.parameter("b", shape);
        return sketch.build().emit<Binary>({a, b}, kind);
      }));
    }
    cases.push_back({fmt::format("lerp {}", to_string(shape)), [=](Sketch& sketch) {
                       const TensorId old = sketch.input("old", shape), fresh = sketch.input("fresh", shape);
                       sketch.output("y", sketch.build().emit<Lerp>({old, fresh}, 0.1, 37.0 / 36));
                       sketch.loss(sketch.parameter("p", {3, 2}));
                     }});
  }
}

void add_loss_cases(std::vector<KernelCase>& cases) {
  for (const Shape& shape :
       {Shape{1, 2}, Shape{3, 31}, Shape{70, 33}, Shape{2, 1000}, Shape{3, 5, 3, 7}, Shape{2, 33, 1, 9},
        Shape{1, 40, 2, 3}, Shape{3, 7, 5}, Shape{2, 3, 1000}, Shape{3, 1031}, Shape{2, 2, 2500}}) {
    for (const double smoothing : {0.0, 0.2}) {
      cases.push_back({fmt::format("cross_entropy {}", to_string(shape)), [=](Sketch& sketch) {
                         const Shape labels = shape.size() == 4   ? Shape{shape[0], shape[2], shape[3]}
                                              : shape.size() == 3 ? Shape{shape[0], shape[1]}
                                                                  : Shape{shape[0]};
                         const std::vector<TensorId> inputs{
                             passing_logits(sketch, shape),
                             sketch.integers("labels", labels, LogitSizes(shape).classes),
                             sketch.input("weights", {shape[0]}, Values::positive)};
                         sketch.output("top1", sketch.build().emit<TopK>(inputs, 1));
                         sketch.output("top2", sketch.build().emit<TopK>(inputs, 2));
                         sketch.output("cells", sketch.build().emit<ConfusionCells>(inputs, 1));
                         sketch.output("loss", sketch.build().emit<CrossEntropy>(inputs, smoothing));
                       }});
    }
  }
  add_cross_entropy_sums_cases(cases);
  for (const Shape& shape : {Shape{1, 2}, Shape{9, 33}}) {
    cases.push_back({fmt::format("mixed labels {}", to_string(shape)), [=](Sketch& sketch) {
                       const TensorId logits = sketch.parameter("logits", shape);
                       const TensorId labels = sketch.integers("labels", shape[0], shape[1]),
                                      others = sketch.integers("others", shape[0], shape[1]);
                       const TensorId weights = sketch.input("weights", {shape[0]}, Values::positive),
                                      mix_weights = sketch.input("mix_weights", {shape[0]}, Values::positive);
                       for (float& weight : sketch.values["mix_weights"]) weight -= 0.5f;
                       sketch.values["mix_weights"][0] = 1;
                       sketch.output("loss", sketch.build().emit<CrossEntropy>(
                                                 {logits, labels, weights, others, mix_weights}, 0.1));
                     }});
  }
}

void add_movement_cases(std::vector<KernelCase>& cases) {
  for (const DType low : {DType::f16, DType::bf16}) {
    for (const Shape& shape : {Shape{3, 11}, Shape{2, 1031}, Shape{2, 17, 3, 5}}) {
      cases.push_back(
          differentiable(fmt::format("cast {} {}", to_string(low), to_string(shape)), [=](Sketch& sketch) {
            const TensorId narrow = sketch.build().emit<Cast>({sketch.parameter("x", shape)}, low);
            return sketch.build().emit<Cast>({narrow}, DType::f32);
          }));
      cases.back().narrow = false;
      cases.back().tolerances = narrow_tolerances(low);
    }
  }
  struct Joined {
    Shape first, second;
    int64_t axis;
  };
  for (const Joined& j : {Joined{{2, 3}, {2, 5}, 1}, Joined{{2, 8, 3, 3}, {2, 16, 3, 3}, 1},
                          Joined{{3, 5, 2, 7}, {3, 4, 2, 7}, 1}, Joined{{2, 17, 9, 5}, {2, 40, 9, 5}, 1},
                          Joined{{2, 3, 4, 5}, {2, 3, 3, 5}, 2}, Joined{{2, 3, 4, 8}, {2, 3, 4, 4}, 3}}) {
    cases.push_back(differentiable(
        fmt::format("concat {} {} axis {}", to_string(j.first), to_string(j.second), j.axis),
        [=](Sketch& sketch) {
          const TensorId a = sketch.parameter("a", j.first), b = sketch.parameter("b", j.second);
          return sketch.build().emit<Concat>({a, b}, j.axis);
        }));
  }
}

const std::vector<CaseFamily>& case_families() {
#define TRAINER_LIST_ROW(function) {#function, function},
  static const std::vector<CaseFamily> all = {TRAINER_KERNEL_CASES(TRAINER_LIST_ROW)};
#undef TRAINER_LIST_ROW
  return all;
}

Tolerances narrow_tolerances(DType dtype) {
  const double step = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  return {.forward = 3 * step, .gradients = 6 * step};
}

}  // namespace trainer
