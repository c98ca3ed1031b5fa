// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/layer_norm.h"

#include <fmt/format.h>

#include "core/graph/ops/binary.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

struct LayerNormParts {
  bool rms, weight, bias;
};

TensorId emit_layer_norm(Sketch& sketch, const LayerNormParts& parts, const std::string& name, TensorId x) {
  const Shape features{sketch.build().shape(x).back()};
  const TensorId gamma = parts.weight ? sketch.parameter(name + ".weight", features) : kNone;
  const TensorId beta = parts.bias ? sketch.parameter(name + ".bias", features) : kNone;
  return sketch.build().emit<LayerNorm>({x, gamma, beta, kNone}, 1e-3, parts.rms);
}

const std::vector<LayerNormParts> kLayerNorms = {{false, true, true},   {false, true, false},
                                                 {false, false, false}, {true, true, false},
                                                 {true, false, false},  {true, true, true}};

}  // namespace

TEST_CASE("layer normalisations have the right values and gradients") {
  for (const Shape& shape :
       {Shape{1, 2}, Shape{31, 33}, Shape{3, 1, 31}, Shape{2, 33, 5}, Shape{1, 3, 300}, Shape{2, 3, 4, 31}}) {
    for (const LayerNormParts& parts : kLayerNorms) {
      check_program(fmt::format("layer norm {} rms {} weight {} bias {}", to_string(shape), parts.rms,
                                parts.weight, parts.bias),
                    [&](Sketch& sketch) {
                      const TensorId y = emit_layer_norm(sketch, parts, "norm", sketch.parameter("x", shape));
                      sketch.output("y", y);
                      sketch.loss(y);
                    });
    }
  }
}

TEST_CASE("a row of one feature is normalised to the bias, and its gradient vanishes") {
  check_cpu(
      [](Sketch& sketch) {
        const TensorId y =
            emit_layer_norm(sketch, {false, true, true}, "norm", sketch.parameter("x", {5, 1}));
        sketch.output("y", y);
        sketch.loss(y);
      },
      1);
}

TEST_CASE("layer normalisations of rows far from zero keep their digits") {
  check_cpu(
      [](Sketch& sketch) {
        const TensorId x = sketch.parameter("x", {7, 256});
        for (float& value : sketch.values["x"]) value += 30;
        const TensorId y = emit_layer_norm(sketch, {false, true, true}, "norm", x);
        sketch.output("y", y);
        sketch.loss(y);
      },
      1);
}

TEST_CASE("a residual stream is added up, and its gradients too, in the passes of its normalisations") {
  for (const Shape& shape : {Shape{3, 33}, Shape{2, 5, 31}, Shape{9, 13, 64}}) {
    for (const LayerNormParts& parts : kLayerNorms) {
      check_program(
          fmt::format("residual stream {} rms {}", to_string(shape), parts.rms), [&](Sketch& sketch) {
            Builder& build = sketch.build();
            TensorId x = sketch.parameter("x", shape);
            for (const char* name : {"a", "b"}) {
              const TensorId branch = build.emit<Binary>({emit_layer_norm(sketch, parts, name, x),
                                                          sketch.parameter(std::string("w.") + name, shape)},
                                                         Binary::Kind::mul);
              x = build.emit<Binary>({x, branch}, Binary::Kind::add);
            }
            const TensorId y = emit_layer_norm(sketch, parts, "last", x);
            sketch.output("y", y);
            sketch.loss(y);
          });
    }
  }
}

TEST_CASE("layer normalisations refuse rows without samples and parameters of other features") {
  Sketch sketch(1);
  Builder& build = sketch.build();
  const TensorId x = sketch.input("x", {2, 3, 5}), gamma = sketch.input("gamma", {3});
  CHECK_THROWS_WITH(build.emit<LayerNorm>({sketch.input("row", {5}), kNone, kNone, kNone}, 1e-5, false),
                    ContainsSubstring("expected features (N, K) or (N, T, K), got shape 5; images are"));
  CHECK_THROWS_WITH(build.emit<LayerNorm>({x, gamma, kNone, kNone}, 1e-5, true),
                    ContainsSubstring("expected one number for each of 5 features, got 3"));
}
