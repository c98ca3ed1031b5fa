// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include "tests/catch.h"

#include "core/graph/ops/assign.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/channels.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/matmul.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/quantize.h"
#include "core/graph/ops/quantized_product.h"
#include "core/graph/ops/resample2d.h"
#include "core/graph/ops/stochastic_depth.h"
#include "core/graph/ops/sync_batch_norm.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "tests/cuda/cases.h"
#include "tests/ops/bf16_cpu.h"
#include "tests/ops/functions.h"
#include "tests/reference/backend.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

struct Convolved {
  Shape x;
  int64_t outputs;
  Conv2dGeometry geometry;
};

/// First layers, Winograd's sizes with whole and partial tiles, several strides, groups and one channel each.
const std::vector<Convolved> kConvolved = {
    {{2, 3, 9, 7}, 16, {.kernel = {3, 3}, .padding = {1, 1}}},
    {{2, 1, 12, 8}, 32, {.kernel = {3, 3}}},
    {{2, 16, 9, 8}, 16, {.kernel = {3, 3}, .padding = {1, 1}}},
    {{2, 20, 8, 9}, 24, {.kernel = {3, 3}, .padding = {1, 1}}},
    {{2, 32, 8, 8}, 32, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 2}},
    {{2, 32, 6, 5}, 16, {.kernel = {1, 1}}},
    {{2, 16, 7, 9}, 32, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{2, 16, 7, 7}, 16, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 16}},
    {{2, 5, 7, 6}, 7, {.kernel = {5, 5}, .padding = {2, 2}}},
    {{2, 16, 9, 9}, 16, {.kernel = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}}},
};

TensorId clamped(Sketch& sketch, TensorId x) {
  return sketch.build().emit<Unary>({x}, elementwise::Function(elementwise::Relu{}));
}

TensorId normalised(Sketch& sketch, TensorId x) {
  const Shape channels{sketch.build().shape(x)[1]};
  const auto y = sketch.build().emit_all(
      std::make_shared<BatchNorm>(1e-3),
      {x, sketch.parameter("gamma", channels, Values::positive), sketch.parameter("beta", channels), kNone});
  return y[0];
}

Shape weights_of(const Convolved& c) {
  return {c.outputs, c.x[1] / c.geometry.groups, c.geometry.kernel[0], c.geometry.kernel[1]};
}

TensorId convolved(Sketch& sketch, const Convolved& c, bool bias) {
  const TensorId x = sketch.parameter("x", c.x), w = sketch.parameter("w", weights_of(c));
  return sketch.build().emit<Conv2d>({x, w, bias ? sketch.parameter("b", {c.outputs}) : kNone}, c.geometry);
}

/// Followed by operations that fusion merges into it; one of the programs is unfused.
void add_convolutions(std::vector<KernelCase>& cases) {
  for (const Convolved& c : kConvolved) {
    const std::string name =
        fmt::format("conv2d {} to {} {}", to_string(c.x), c.outputs, attributes_text(Conv2d(c.geometry)));
    const bool bias = c.x[1] % 2 == 0;
    cases.push_back(differentiable(
        name + " relu", [=](Sketch& sketch) { return clamped(sketch, convolved(sketch, c, bias)); }));
    cases.push_back(differentiable(name + " batch_norm add relu", [=](Sketch& sketch) {
      const TensorId y = normalised(sketch, convolved(sketch, c, false));
      const TensorId residual = sketch.parameter("r", sketch.build().shape(y));
      return clamped(sketch, sketch.build().emit<Binary>({y, residual}, Binary::Kind::add));
    }));
    // What is not differentiated is fused otherwise.
    cases.push_back({name + " add relu", [=](Sketch& sketch) {
                       const TensorId x = sketch.input("x", c.x), w = sketch.input("w", weights_of(c));
                       const TensorId product = sketch.build().emit<Conv2d>({x, w, kNone}, c.geometry);
                       const Shape shape = sketch.build().shape(product);
                       const TensorId sum =
                           clamped(sketch, sketch.build().emit<Binary>({product, sketch.input("r", shape)},
                                                                       Binary::Kind::add));
                       sketch.output("sum", sum);
                       sketch.loss(sketch.build().emit<Binary>({sum, sketch.parameter("scale", shape)},
                                                               Binary::Kind::mul));
                     }});
    const Size2d y = c.geometry.output({c.x[2], c.x[3]});
    cases.push_back(differentiable(name + " transposed", [=](Sketch& sketch) {
      const Size2d kernel = c.geometry.kernel;
      const TensorId dy = sketch.parameter("dy", {c.x[0], c.outputs, y[0], y[1]}),
                     w = sketch.parameter("w", {c.outputs, c.x[1] / c.geometry.groups, kernel[0], kernel[1]});
      return sketch.build().emit<Conv2dBackwardData>({dy, w}, c.geometry, c.x);
    }));
  }
}

using OnImages = std::function<TensorId(Sketch&, TensorId)>;

/// Operations on inputs in any layout that a convolution gives its output.
std::vector<std::pair<std::string, OnImages>> functions_of_images() {
  std::vector<std::pair<std::string, OnImages>> all;
  for_each_functor([&](auto functor) {
    all.emplace_back(functor.kName, [=](Sketch& sketch, TensorId x) {
      return sketch.build().emit<Unary>({x}, elementwise::Function(functor));
    });
  });
  for_each_functor([&](auto functor) {
    all.emplace_back(fmt::format("{} gate", functor.kName), [=](Sketch& sketch, TensorId x) {
      const TensorId opened = sketch.build().emit<Unary>({x}, elementwise::Function(functor));
      const TensorId other = sketch.parameter("other", sketch.build().shape(x));
      return sketch.build().emit<Binary>({opened, other}, Binary::Kind::mul);
    });
  });
  all.emplace_back("sum relu", [](Sketch& sketch, TensorId x) {
    const TensorId other = sketch.parameter("other", sketch.build().shape(x));
    return clamped(sketch, sketch.build().emit<Binary>({x, other}, Binary::Kind::add));
  });
  for (const auto kind : {Binary::Kind::add, Binary::Kind::mul}) {
    all.emplace_back("binary", [=](Sketch& sketch, TensorId x) {
      return sketch.build().emit<Binary>({x, sketch.parameter("other", sketch.build().shape(x))}, kind);
    });
  }
  for (const Conv2dGeometry& g : {Conv2dGeometry{.kernel = {2, 2}, .stride = {2, 2}},
                                  Conv2dGeometry{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
                                  Conv2dGeometry{.kernel = {3, 2}}, Conv2dGeometry{.kernel = {6, 5}}}) {
    all.emplace_back("max_pool2d",
                     [=](Sketch& sketch, TensorId x) { return sketch.build().emit<MaxPool2d>({x}, g); });
    all.emplace_back("avg_pool2d",
                     [=](Sketch& sketch, TensorId x) { return sketch.build().emit<AvgPool2d>({x}, g); });
  }
  all.emplace_back("batch_norm", normalised);
  all.emplace_back("batch_norm relu6", [](Sketch& sketch, TensorId x) {
    return sketch.build().emit<Unary>({normalised(sketch, x)}, elementwise::Function(elementwise::Relu6{}));
  });
  all.emplace_back("concat", [](Sketch& sketch, TensorId x) {
    return sketch.build().emit<Concat>({x, sketch.parameter("other", sketch.build().shape(x))}, 1);
  });
  for (const auto rule : {Resampling::nearest, Resampling::bilinear, Resampling::average}) {
    all.emplace_back("resample2d", [=](Sketch& sketch, TensorId x) {
      return sketch.build().emit<Resample2d>({x}, rule, Size2d{9, 4});
    });
  }
  for (const bool whole : {false, true}) {
    all.emplace_back("dropout", [=](Sketch& sketch, TensorId x) {
      const std::vector<TensorId> inputs{x, sketch.integers("samples", sketch.build().shape(x)[0], 99),
                                         sketch.integers("step", 1, 99)};
      const DropoutSettings rule{.p = 0.5, .key = 5};
      return whole ? sketch.build().emit<StochasticDepth>(inputs, rule)
                   : sketch.build().emit<Dropout>(inputs, rule);
    });
  }
  all.emplace_back("scale_channels", [](Sketch& sketch, TensorId x) {
    const Shape shape = sketch.build().shape(x);
    return sketch.build().emit<ScaleChannels>({x, sketch.parameter("s", {shape[0], shape[1], 1, 1})});
  });
  all.emplace_back("add_channels", [](Sketch& sketch, TensorId x) {
    return sketch.build().emit<AddChannels>({x, sketch.parameter("b", {sketch.build().shape(x)[1]})});
  });
  return all;
}

/// Row-major, and as a convolution outputs them: in whole blocks of channels and in some that are padded.
void add_layouts(std::vector<KernelCase>& cases) {
  for (const auto& [name, function] : functions_of_images()) {
    for (const int64_t channels : {16, 20}) {
      const Shape shape{2, channels, 6, 5};
      cases.push_back(differentiable(name + " in rows", [=, f = function](Sketch& sketch) {
        return f(sketch, sketch.parameter("x", shape, Values::distinct));
      }));
      cases.push_back(differentiable(name + " in blocks", [=, f = function](Sketch& sketch) {
        return f(sketch, convolved(sketch, {shape, channels, {.kernel = {1, 1}}}, true));
      }));
    }
  }
}

void add_products(std::vector<KernelCase>& cases) {
  for (const Shape& x : {Shape{3, 33}, Shape{32, 64}, Shape{2, 5, 17}}) {
    for (const int64_t outputs : {1, 10, 48}) {
      for (const bool bias : {false, true}) {
        for (const bool relu : {false, true}) {
          cases.push_back(differentiable(
              fmt::format("linear {} to {}, bias {}, relu {}", to_string(x), outputs, bias, relu),
              [=](Sketch& sketch) {
                const TensorId w = sketch.parameter("w", {outputs, x.back()});
                const TensorId y = sketch.build().emit<Linear>(
                    {sketch.parameter("x", x), w, bias ? sketch.parameter("b", {outputs}) : kNone});
                return relu ? clamped(sketch, y) : y;
              }));
        }
      }
    }
  }
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      cases.push_back(differentiable("matmul", [=](Sketch& sketch) {
        return sketch.build().emit<MatMul>({sketch.parameter("a", a ? Shape{2, 17, 5} : Shape{2, 5, 17}),
                                            sketch.parameter("b", b ? Shape{2, 9, 17} : Shape{2, 17, 9})},
                                           a, b);
      }));
    }
  }
}

/// A normalisation's operations that exchange data, which passes put into programs of several ranks.
void add_synchronised(std::vector<KernelCase>& cases) {
  for (const bool blocks : {false, true}) {
    cases.push_back({"batch_norm_moments and batch_norm_sums", [=](Sketch& sketch) {
                       const Shape shape{2, 16, 6, 5}, channels{16};
                       const TensorId x = blocks ? convolved(sketch, {shape, 16, {.kernel = {1, 1}}}, true)
                                                 : sketch.parameter("x", shape);
                       sketch.output("moments", sketch.build().emit<BatchNormMoments>({x}, 2));
                       const auto sums = sketch.build().emit_all(
                           std::make_shared<BatchNormSums>(1e-3, 2, false),
                           {sketch.input("dy", shape), x, sketch.input("mean", channels),
                            sketch.input("variance", channels, Values::positive), kNone, kNone});
                       for (size_t i = 0; i < 3; ++i) sketch.output(fmt::format("sums {}", i), sums[i]);
                       sketch.loss(sketch.parameter("p", {3, 2}));
                     }});
    cases.back().narrow = false;
  }
}

/// Those of our own kernels, and those that use libraries.
std::vector<KernelCase> all_cases() {
  std::vector<KernelCase> cases;
  for (const CaseFamily& family : case_families()) family.add(cases);
  add_convolutions(cases);
  add_layouts(cases);
  add_products(cases);
  add_synchronised(cases);
  std::erase_if(cases, [](const KernelCase& one) { return has_more_elements(one.draft, 40000); });
  return cases;
}

}  // namespace

TEST_CASE("NaN and infinities arrive through every operation, form and layout of the CPU") {
  const Backend cpu = make_cpu_backend(2), low = make_bf16_cpu_backend(2);
  NonFiniteCoverage coverage;
  const std::vector<KernelCase> cases = all_cases();
  for (size_t i = 0; i < cases.size(); i += few_or_all<size_t>(16, 1)) {
    const KernelCase& one = cases[i];
    INFO(one.name);
    check_non_finite(cpu, one.draft, 1, coverage);
    if (one.narrow) check_non_finite_bf16(low, one.draft, 2, coverage);
  }
  std::set<std::type_index> operations = reference_operations();
  operations.erase(typeid(Assign));      // changes bits, mostly none
  for (const std::type_index of_bytes :  // which hold no NaN; see quantize_test.cpp
       {std::type_index(typeid(Quantize)), std::type_index(typeid(Dequantize)),
        std::type_index(typeid(QuantizeWeights)), std::type_index(typeid(ProductScales)),
        std::type_index(typeid(ObserveRange)), std::type_index(typeid(QuantizedConv2d)),
        std::type_index(typeid(QuantizedLinear))})
    operations.erase(of_bytes);
  for (const std::type_index& operation : operations) {
    if (kIsSanitized) break;  // not all cases were run
    INFO(operation.name());
    CHECK((coverage.operations.contains(operation) || coverage.refused.contains(operation)));
  }
  std::cout << summary(coverage);
}

}  // namespace trainer
