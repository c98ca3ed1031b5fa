// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/quantize.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/base/weight_bits.h"
#include "core/graph/builder.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "cpu/onednn.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// One operation with its operands, on both backends.
struct OneNode {
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build{program, program.entries[0]};
  std::map<std::string, std::vector<float>> values;

  TensorId input(const std::string& name, const TensorSpec& spec, std::vector<float> numbers) {
    values[name] = std::move(numbers);
    return program.input(name, spec);
  }
  void output(const std::string& name, TensorId id) { program.entries[0].outputs.push_back({name, id}); }
  std::vector<double> run(const Backend& backend, const std::string& name) const {
    Session session(program, backend);
    session.set(values);
    session.run("run");
    return session.output("run", name);
  }
  /// The result, which both backends agree on.
  std::vector<double> result(const std::string& name) const {
    const std::vector<double> found = run(make_cpu_backend(2), name);
    CHECK(found == run(make_reference_backend(), name));
    return found;
  }
};

/// Multiples of 1/8, exact in any of the tests' scales.
std::vector<float> eighths(const Shape& shape, uint64_t seed) {
  RandomStream random(seed, 3, 0);
  std::vector<float> numbers;
  for (int64_t i = 0; i < numel(shape); ++i)
    numbers.push_back(static_cast<float>(random.next_below(6000) - 3000) / 8);
  return numbers;
}

}  // namespace

TEST_CASE("bytes are rounded to the nearest number, ties to even, and saturated") {
  OneNode one;
  const TensorId x = one.input("x", {{10}, DType::f32},
                               {0.25F, 0.75F, 1.25F, 63.75F, 63.8F, 1000, -0.25F, -0.3F, -1000, kInfinity});
  one.output("y", one.build.emit<Quantize>({x}, Quantization{.scale = 0.5, .zero_point = 128}));
  CHECK(one.result("y") == std::vector<double>{128, 130, 130, 255, 255, 255, 128, 127, 0, 255});

  OneNode other;
  const TensorId z = other.input("x", {{3}, DType::f32}, {kNan, -kInfinity, 2.5F});
  other.output("y", other.build.emit<Quantize>({z}, Quantization{.scale = 1, .zero_point = 0}));
  CHECK(other.result("y") == std::vector<double>{0, 0, 2});
}

TEST_CASE("bytes of images are the same from every layout, and numbers again") {
  // A convolution's own layout, a row-major one, and one with its channels last.
  for (const int64_t channels : {1, 3, 8, 17, 32}) {
    for (const bool after_convolution : {false, true}) {
      INFO(channels << (after_convolution ? " after a convolution" : ""));
      OneNode one;
      const Shape shape{2, channels, 3, 5};
      TensorId x = one.input("x", {shape, DType::f32}, eighths(shape, 1));
      if (after_convolution) {
        std::vector<float> same(static_cast<size_t>(channels * channels));
        for (int64_t c = 0; c < channels; ++c) same[static_cast<size_t>(c * channels + c)] = 1;
        const TensorId w = one.input("w", {{channels, channels, 1, 1}, DType::f32}, same);
        x = one.build.emit<Conv2d>({x, w}, Conv2dGeometry{});
      }
      const Quantization quantization{.scale = 2, .zero_point = 100};
      const TensorId bytes = one.build.emit<Quantize>({x}, quantization);
      const TensorId wide = one.build.emit<Dequantize>({bytes}, quantization);
      one.output("bytes", bytes);
      one.output("wide", wide);
      one.output("relu", one.build.emit<Unary>({wide}, elementwise::Function(elementwise::Relu{})));
      one.result("bytes");
      one.result("wide");
      one.result("relu");
    }
  }
}

TEST_CASE("weights have the bits that are asked for, scales that they share, and keep their integers") {
  const WeightLevels cases[] = {{.bits = 8},
                                {.bits = 7},
                                {.bits = 2},
                                {.bits = 4, .per_tensor = true},
                                {.bits = 7, .power_of_two = true},
                                {.bits = 3, .per_tensor = true, .power_of_two = true}};
  for (const WeightLevels& levels : cases) {
    if (levels.bits == 8 && !cpu::may_use(dnnl::cpu_isa::avx512_core_vnni)) continue;
    for (const uint64_t seed : {1, 2}) {
      OneNode one;
      const Shape shape{5, 3, 2, 2};
      std::vector<float> values = eighths(shape, seed);
      std::fill_n(values.begin() + 12, 12, 0.0F);  // the second output
      const TensorId w = one.input("w", {shape, DType::f32}, values);
      const auto made = one.build.emit_all(std::make_shared<QuantizeWeights>(levels), {w});
      one.output("integers", made[QuantizeWeights::kIntegers]);
      one.output("scale", made[QuantizeWeights::kScale]);
      const std::vector<double> integers = one.result("integers"), scale = one.result("scale");
      CHECK((levels.per_tensor ? scale[1] == scale[0] : scale[1] == 1));
      std::vector<float> again(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        CHECK(std::abs(integers[i]) <= static_cast<double>(greatest_weight(levels.bits)));
        CHECK(std::abs(scale[i / 12] * integers[i] - static_cast<double>(values[i])) <=
              scale[i / 12] * 0.5001);
        if (levels.power_of_two) CHECK(std::log2(scale[i / 12]) == std::nearbyint(std::log2(scale[i / 12])));
        again[i] = static_cast<float>(scale[i / 12]) * static_cast<float>(integers[i]);
      }
      std::vector<int8_t> kept(values.size());
      std::vector<float> same(5);
      quantize_weights(again, levels, same, kept.data());
      CHECK(std::ranges::equal(kept, integers));
    }
  }
}

TEST_CASE("products in 8 bits: weights of 8 bits are refused where their sums would be clipped") {
  const bool is_exact =
      cpu::may_use(dnnl::cpu_isa::avx512_core_vnni) || cpu::may_use(dnnl::cpu_isa::avx2_vnni);
  const Backend backend = make_cpu_backend(1);
  for (const int64_t bits : {7, 8}) {
    const QuantizeWeights op(WeightLevels{.bits = bits});
    const OpContext context{.op = op, .inputs = {{{4, 3}, DType::f32}}, .outputs = {}};
    CHECK(backend.planner->why_not(context).has_value() == (bits == 8 && !is_exact));
  }
}

TEST_CASE("multiplier and bias of a product hold scales and zero points") {
  OneNode one;
  const TensorId w = one.input("w", {{2, 3}, DType::i8}, {1, 2, 3, -4, 5, -60}),
                 scale = one.input("scale", {{2}, DType::f32}, {0.5F, 0.25F}),
                 bias = one.input("bias", {{2}, DType::f32}, {8, -2});
  const auto op = std::make_shared<ProductScales>(Quantization{.scale = 4, .zero_point = 128}, 8, 3);
  const auto with = one.build.emit_all(op, {w, scale, bias}), without = one.build.emit_all(op, {w, scale});
  one.output("multiplier", with[ProductScales::kMultiplier]);
  one.output("bias", with[ProductScales::kShiftedBias]);
  one.output("none", without[ProductScales::kShiftedBias]);
  CHECK(one.result("multiplier") == std::vector<double>{0.25, 0.125});
  CHECK(one.result("bias") == std::vector<double>{1 - 0.25 * 128 * 6 + 3, -0.25 + 0.125 * 128 * 59 + 3});
  CHECK(one.result("none") == std::vector<double>{-0.25 * 128 * 6 + 3, 0.125 * 128 * 59 + 3});
}

TEST_CASE("observed values have their extremes, and are counted within a range") {
  OneNode one;
  const Shape shape{3, 17, 2, 2};  // a layout of blocks would have padding
  const TensorId x = one.input("x", {shape, DType::f32}, eighths(shape, 5));
  const auto seen = one.build.emit_all(std::make_shared<ObserveRange>(-256, 256), {x});
  one.output("extremes", seen[ObserveRange::kExtremes]);
  one.output("counts", seen[ObserveRange::kCounts]);
  const std::vector<double> extremes = one.result("extremes"), counts = one.result("counts");
  CHECK(extremes[0] < -256);
  CHECK(extremes[1] > 256);
  double sum = 0;
  for (const double count : counts) sum += count;
  CHECK(sum == static_cast<double>(numel(shape)));
  CHECK(counts.front() > 1);  // all below
  CHECK(counts.back() > 1);

  OneNode bad;
  const TensorId z = bad.input("x", {{3}, DType::f32}, {1, kNan, 2});
  const auto found = bad.build.emit_all(std::make_shared<ObserveRange>(0, 0), {z});
  bad.output("extremes", found[ObserveRange::kExtremes]);
  for (const auto& make : {+[] { return make_cpu_backend(1); }, +[] { return make_reference_backend(); }})
    CHECK(std::isnan(bad.run(make(), "extremes")[0]));
}
