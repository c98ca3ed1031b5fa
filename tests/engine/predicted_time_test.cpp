// SPDX-License-Identifier: Apache-2.0
#include "core/engine/predicted_time.h"

#include <string>

#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "tests/catch.h"

namespace trainer {
namespace {

/// A plan of one node, (rows, 64) of that type in and out; with a weight it is a product.
struct OneNode {
  OneNode(DType dtype, int64_t rows, bool multiplies) {
    add({{rows, 64}, dtype});
    node.op = multiplies ? std::shared_ptr<Operation>(std::make_shared<Linear>())
                         : std::make_shared<Unary>(elementwise::Function(elementwise::Relu{}));
    node.inputs = {0};
    if (multiplies) {
      add({{64, 64}, dtype});
      node.inputs = {0, 1, kNone};
    }
    add({{rows, 64}, dtype});
    node.outputs = {static_cast<TensorId>(plan.tensors.size()) - 1};
  }
  void add(const TensorSpec& spec) {
    plan.tensors.push_back({.name = "", .spec = spec});
    plan.placements.push_back({.bytes = numel(spec.shape) * bytes_per_element(spec.dtype)});
  }
  Cost cost(const Choice& choice, bool runs = true) const {
    return cost_of(plan, {.node = node, .choice = choice, .runs = runs}, kRates);
  }

  static constexpr DeviceRates kRates{.bytes = 1e12, .f32 = 1e13, .tf32 = 1e14, .f16 = 2e14, .bf16 = 4e14};
  Plan plan;
  Node node;
};

}  // namespace

TEST_CASE("what moves takes the memory's share of its rate, and each kernel its start") {
  const OneNode relu(DType::f32, 1000, false);
  const Cost once = relu.cost({});
  CHECK(once.kernels == 1);
  CHECK(once.bytes == 2 * 1000 * 64 * 4);
  CHECK(once.seconds() == Approx(512e3 / (1e12 * kEfficiency.bytes) + kEfficiency.seconds_per_kernel));
  const Cost more = relu.cost({.kernels = 3, .again_bytes = 512000});
  CHECK(more.bytes == 2 * once.bytes);
  CHECK(more.seconds() ==
        Approx(2 * 512e3 / (1e12 * kEfficiency.bytes) + 3 * kEfficiency.seconds_per_kernel));
}

TEST_CASE("arithmetic at full rates needs no share of them, and nothing where a node does not run") {
  const OneNode product(DType::f16, 4096, true);
  const double flops = 2.0 * 4096 * 64 * 64;
  const auto seconds = [&](bool tensor_cores, bool runs) {
    return arithmetic_seconds(product.plan,
                              {.node = product.node, .choice = {.tensor_cores = tensor_cores}, .runs = runs},
                              OneNode::kRates);
  };
  CHECK(seconds(true, true) == Approx(flops / 2e14));
  CHECK(seconds(false, true) == Approx(flops / 1e13));
  CHECK(seconds(true, false) == 0);
}

TEST_CASE("products take the longer of memory and arithmetic, by the type of their factors") {
  const double flops = 2.0 * 4096 * 64 * 64;
  const auto arithmetic = [&](DType dtype, bool tensor_cores) {
    const Cost cost = OneNode(dtype, 4096, true).cost({.tensor_cores = tensor_cores});
    CHECK(cost.flops == Approx(flops));
    return cost.seconds() - kEfficiency.seconds_per_kernel;
  };
  CHECK(arithmetic(DType::f32, false) == Approx(flops / (1e13 * kEfficiency.flops)));
  const double moved = (2 * 4096 * 64 + 64 * 64) * 2.0;
  CHECK(arithmetic(DType::f16, true) == Approx(moved / (1e12 * kEfficiency.bytes)));
  CHECK(arithmetic(DType::f16, false) == Approx(flops / (1e13 * kEfficiency.flops)));
}

TEST_CASE("the limit of a node is what takes most of its time, and sums keep each part") {
  const Cost large = OneNode(DType::f32, 1000000, false).cost({}),
             small = OneNode(DType::f32, 1, false).cost({}),
             product = OneNode(DType::f32, 4096, true).cost({});
  CHECK(std::string(large.limit()) == "bytes");
  CHECK(std::string(small.limit()) == "starts");
  CHECK(std::string(product.limit()) == "arithmetic");
  Cost sum = large;
  sum.add(product, 3);
  CHECK(sum.moving == large.moving);
  CHECK(sum.computing == 3 * product.computing);
  CHECK(sum.starting == Approx(4 * kEfficiency.seconds_per_kernel));
  CHECK(sum.seconds() == Approx(large.seconds() + 3 * product.seconds()));
}

TEST_CASE("a tensor that a node reads twice moves once") {
  OneNode square(DType::f32, 64, true);
  square.node.inputs = {0, 0, kNone};
  CHECK(square.cost({}).bytes == 2 * 64 * 64 * 4);
}

TEST_CASE("what does not run costs nothing") {
  const OneNode relu(DType::f32, 10, false);
  const Cost none = relu.cost({}, false);
  CHECK(none.kernels == 0);
  CHECK(none.seconds() == 0);
  Cost sum = relu.cost({});
  sum.add(sum, 2);
  CHECK(sum.kernels == 3);
  CHECK(sum.bytes == 3 * 2 * 10 * 64 * 4);
}

}  // namespace trainer
