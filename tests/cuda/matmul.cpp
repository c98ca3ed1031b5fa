// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/matmul.h"

#include "core/engine/backend_library.h"
#include "core/graph/ops/cast.h"
#include "tests/catch.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/two_backends.h"

namespace trainer {
namespace {

struct Factors {
  Shape a, b;  ///< as multiplied
};

const std::vector<Factors> kFactors = {
    {{31, 33}, {33, 7}}, {{64, 128}, {128, 64}}, {{3, 31, 33}, {3, 33, 5}}, {{8, 64, 32}, {8, 32, 64}}};

Shape stored(Shape shape, bool is_transposed) {
  if (is_transposed) std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  return shape;
}

/// In `dtype`, with the gradients of both.
Draft matmul_in(DType dtype, const Factors& factors, bool transpose_a, bool transpose_b) {
  return [=](Sketch& sketch) {
    Builder& build = sketch.build();
    TensorId a = sketch.parameter("a", stored(factors.a, transpose_a)),
             b = sketch.parameter("b", stored(factors.b, transpose_b));
    if (dtype != DType::f32) {
      a = build.emit<Cast>({a}, dtype);
      b = build.emit<Cast>({b}, dtype);
    }
    TensorId y = build.emit<MatMul>({a, b}, transpose_a, transpose_b);
    if (dtype != DType::f32) y = build.emit<Cast>({y}, DType::f32);
    sketch.output("y", y);
    sketch.loss(y);
  };
}

void check_factors(const Backend& gpu) {
  for (const Factors& factors : kFactors) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          INFO(to_string(factors.a) << " by " << to_string(factors.b) << " in " << to_string(dtype)
                                    << ", transposed " << transpose_a << transpose_b);
          check_backend(gpu, matmul_in(dtype, factors, transpose_a, transpose_b), 1,
                        dtype == DType::f32 ? Tolerances{} : narrow_tolerances(dtype));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("batched products of two activations agree with the reference") {
  const auto gpu = cuda_or_skip();
  if (gpu) check_factors(*gpu);
}

TEST_CASE("so do batched products whose algorithms a measurement chose") {
  if (!cuda_or_skip()) return;
  Tuning tuning;
  const auto gpu = load_backend("cuda", BackendRequest{.tuning = &tuning});
  check_factors(gpu);
  CHECK(!tuning.fastest.empty());
}

}  // namespace trainer
