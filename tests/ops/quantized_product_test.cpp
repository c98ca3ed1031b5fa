// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/quantized_product.h"

#include <fmt/format.h>

#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>

#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/builder.h"
#include "core/graph/ops/pool2d.h"
#include "core/passes/pass.h"
#include "cpu/backend.h"
#include "cpu/onednn.h"
#include "tests/processor.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

using Operand = QuantizedProduct;
using Operation8 = std::shared_ptr<const Operation>;

/// A product, the shapes of its operands, and what is passed as a residual.
struct Product {
  Operation8 op;
  Shape x, w, y;
  QuantizedEnd end;
  bool residual = false;
};

std::vector<float> whole_numbers(RandomStream& random, const Shape& shape, int64_t low, int64_t high) {
  std::vector<float> numbers(static_cast<size_t>(numel(shape)));
  for (float& number : numbers) number = static_cast<float>(low + random.next_below(high - low + 1));
  return numbers;
}

/// Powers of two, so that a product with a whole number is exact.
std::vector<float> powers_of_two(RandomStream& random, int64_t count, int low) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers)
    number = std::ldexp(random.next_below(2) == 0 ? 1.0F : -1.0F, low + int(random.next_below(3)));
  return numbers;
}

/// y of one product on a backend. Weights of a parameter have the product's layout; those of an input are
/// converted.
std::vector<double> result_of(const Product& p, const Backend& backend, uint64_t seed, int64_t greatest) {
  Program program;
  program.entries.emplace_back("run");
  Builder build(program, program.entries[0]);
  const bool given = seed % 2 == 0;
  const TensorSpec weights{p.w, DType::i8};
  const TensorId x = program.input("x", {p.x, DType::u8}),
                 w = given ? program.input("w", weights)
                           : program.persistent("w", weights, Role::parameter, {}),
                 multiplier = program.input("multiplier", {{p.w[0]}, DType::f32}),
                 bias = program.input("bias", {{p.w[0]}, DType::f32}),
                 residual = p.residual ? program.input("residual", {p.y, p.end.y}) : kNone;
  const TensorId y = build.emit_all(p.op, {x, w, multiplier, bias, residual})[Operand::kY];
  program.entries[0].outputs.push_back({"y", y});
  verify(program);
  Session session(program, backend);
  RandomStream random(seed, 8, 0);
  session.set("x", whole_numbers(random, p.x, 0, 255));
  session.set("w", whole_numbers(random, p.w, -greatest, greatest));
  session.set("multiplier", powers_of_two(random, p.w[0], -12));
  session.set("bias", whole_numbers(random, {p.w[0]}, -20, 200));
  if (p.residual) session.set("residual", whole_numbers(random, p.y, 0, 255));
  session.run("run");
  return session.output("run", "y");
}

/// All ends of a product. Sums of 7 bits are exact on every processor.
void check_product(const std::string& name, Product p,
                   const std::function<Operation8(const QuantizedEnd&)>& make) {
  const Backend cpu = make_cpu_backend(2), reference = make_reference_backend();
  constexpr int64_t kGreatest = 63;
  uint64_t seed = 0;
  for (const DType y : {DType::u8, DType::f32}) {
    for (const bool residual : {false, true}) {
      for (const double ceiling : {-1.0, std::numeric_limits<double>::infinity(), 96.0}) {
        p.end = {.y = y, .relu = ceiling >= 0};
        if (p.end.relu) p.end.ceiling = ceiling;
        p.end.residual_factor = 0.5;
        p.residual = residual;
        p.op = make(p.end);
        for (int again = 0; again < 2; ++again) {
          INFO(name << ", " << attributes_text(*p.op) << (residual ? ", residual" : "") << ", seed " << seed);
          CHECK(result_of(p, cpu, seed, kGreatest) == result_of(p, reference, seed, kGreatest));
          ++seed;
        }
      }
    }
  }
}

struct Convolution {
  Shape x;
  int64_t outputs;
  Conv2dGeometry geometry;
};
const std::vector<Convolution> kConvolutions = {
    {{1, 1, 5, 5}, 1, {.kernel = {3, 3}}},
    {{2, 3, 7, 5}, 4, {.kernel = {1, 1}}},
    {{2, 17, 6, 6}, 33, {.kernel = {3, 3}, .padding = {1, 1}}},
    {{1, 31, 5, 7}, 17, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{3, 64, 8, 8}, 32, {.kernel = {1, 1}, .stride = {2, 2}}},
    {{2, 5, 9, 8}, 7, {.kernel = {3, 2}, .stride = {1, 3}, .padding = {2, 0}}},
    {{2, 4, 9, 9}, 3, {.kernel = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}}},
    {{2, 6, 5, 5}, 9, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 3}},
    {{2, 33, 6, 5}, 33, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 33}},
    {{2, 32, 7, 7}, 32, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 32}},
    {{1, 12, 4, 5}, 34, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 2}},
    {{1, 6, 4, 5}, 80, {.kernel = {3, 3}, .groups = 2}},
    {{1, 9, 4, 5}, 120, {.kernel = {1, 1}, .groups = 3}},
    {{1, 6, 4, 5}, 192, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 3}},
    {{1, 4, 5, 5}, 4, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 4}},
    {{1, 20, 5, 5}, 20, {.kernel = {3, 3}, .padding = {1, 1}, .groups = 20}},
    {{1, 31, 5, 5}, 31, {.kernel = {3, 3}, .stride = {2, 2}, .groups = 31}},
    {{1, 128, 1, 1}, 65, {.kernel = {1, 1}}},
    {{2, 3, 19, 17}, 8, {.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}}},
};

}  // namespace

TEST_CASE("products in 8 bits: convolutions equal sums of whole numbers") {
  for (const Convolution& c : kConvolutions) {
    const Conv2dGeometry& g = c.geometry;
    const Size2d size = g.output({c.x[2], c.x[3]});
    check_product(fmt::format("{} -> {} {}", to_string(c.x), c.outputs, attributes_text(Conv2d(g))),
                  {.op = {},
                   .x = c.x,
                   .w = {c.outputs, c.x[1] / g.groups, g.kernel[0], g.kernel[1]},
                   .y = {c.x[0], c.outputs, size[0], size[1]},
                   .end = {}},
                  [&](const QuantizedEnd& end) { return std::make_shared<QuantizedConv2d>(g, end); });
  }
}

TEST_CASE("products in 8 bits: linear layers equal sums of whole numbers") {
  const auto make = [](const QuantizedEnd& end) { return std::make_shared<QuantizedLinear>(end); };
  for (const int64_t rows : {1, 3, 33}) {
    for (const int64_t features : {1, 31, 64}) {
      for (const int64_t outputs : {1, 7, 48})
        check_product(
            fmt::format("{}x{} -> {}", rows, features, outputs),
            {.op = {}, .x = {rows, features}, .w = {outputs, features}, .y = {rows, outputs}, .end = {}},
            make);
    }
  }
  check_product("2x3x31 -> 7", {.op = {}, .x = {2, 3, 31}, .w = {7, 31}, .y = {2, 3, 7}, .end = {}}, make);
}

TEST_CASE("products in 8 bits: a pooling after one reads its layout") {
  const Backend cpu = make_cpu_backend(2), reference = make_reference_backend();
  for (const int64_t outputs : {5, 8, 24, 32}) {
    INFO(outputs);
    const auto pooled = [&](const Backend& backend) {
      Program program;
      program.entries.emplace_back("run");
      Builder build(program, program.entries[0]);
      const Shape shape{2, 3, 9, 7}, weights{outputs, 3, 1, 1};
      const TensorId x = program.input("x", {shape, DType::u8}), w = program.input("w", {weights, DType::i8}),
                     ones = program.input("ones", {{outputs}, DType::f32});
      const TensorId y = build.emit<QuantizedConv2d>({x, w, ones, ones}, Conv2dGeometry{}, QuantizedEnd{});
      const Conv2dGeometry windows{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
      program.entries[0].outputs.push_back({"y", build.emit<MaxPool2d>({y}, windows)});
      run_passes(program, {dead_code()});
      Session session(program, backend);
      RandomStream random(3, 8, 0);
      session.set("x", whole_numbers(random, shape, 0, 255));
      session.set("w", whole_numbers(random, weights, -63, 63));
      session.set("ones", std::vector<float>(static_cast<size_t>(outputs), 1));
      session.run("run");
      return session.output("run", "y");
    };
    CHECK(pooled(cpu) == pooled(reference));
  }
}

TEST_CASE("products in 8 bits: operands of other types and shapes are refused") {
  Program program;
  program.entries.emplace_back("run");
  Builder build(program, program.entries[0]);
  const TensorId x = program.input("x", {{2, 3}, DType::u8}), w = program.input("w", {{4, 3}, DType::i8}),
                 four = program.input("four", {{4}, DType::f32}),
                 three = program.input("three", {{3}, DType::f32}),
                 wide = program.input("wide", {{2, 3}, DType::f32}),
                 sum = program.input("sum", {{2, 4}, DType::f32});
  const auto emit = [&](const std::vector<TensorId>& operands, DType y) {
    return build.emit<QuantizedLinear>(operands, QuantizedEnd{.y = y});
  };
  CHECK(program.spec(emit({x, w, four, four}, DType::u8)) == TensorSpec{{2, 4}, DType::u8});
  CHECK_NOTHROW(emit({x, w, four, four, sum}, DType::f32));
  CHECK_THROWS(emit({wide, w, four, four}, DType::u8));
  CHECK_THROWS(emit({x, wide, four, four}, DType::u8));
  CHECK_THROWS(emit({x, w, three, four}, DType::u8));
  CHECK_THROWS(emit({x, w, four, three}, DType::u8));
  CHECK_THROWS(emit({x, w, four, four, sum}, DType::u8));
  CHECK_THROWS(emit({x, w, four, four}, DType::bf16));
}

TEST_CASE("products in 8 bits: a layout of weights with appended sums is refused") {
  const Shape w{64, 64, 3, 3};
  const auto weights_of = [&](dnnl::memory::data_type x) {
    const cpu::OneDnn onednn;
    using dnnl::memory;
    const memory::dims ones{1, 1};
    return cpu::describe_primitive<dnnl::convolution_forward>(
               onednn.engine, dnnl::primitive_attr(), dnnl::prop_kind::forward_inference,
               dnnl::algorithm::convolution_direct, memory::desc({1, 64, 8, 8}, x, memory::format_tag::nhwc),
               cpu::any_layout(w, DType::i8),
               memory::desc({1, 64, 8, 8}, memory::data_type::u8, memory::format_tag::nhwc), ones,
               memory::dims{0, 0}, ones, ones)
        .weights_desc();
  };
  CHECK_NOTHROW(cpu::to_layout(weights_of(dnnl::memory::data_type::u8), w));
  const auto with_sums = weights_of(dnnl::memory::data_type::s8);
  if (!kOnX86) return;  // elsewhere nothing is appended
  REQUIRE(with_sums.get_size() > static_cast<size_t>(numel(w)));
  CHECK_THROWS(cpu::to_layout(with_sums, w));
}
