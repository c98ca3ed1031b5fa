// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include "tests/catch.h"

#include "core/graph/ops/channels.h"
#include "core/passes/pass.h"
#include "cpu/backend.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

struct NoisyImages {
  noise::Rule rule = noise::Gaussian{.std = 25, .clips = false};
  Shape shape{8, 1, 9, 14};
  uint64_t key = 7;
  std::optional<int> step = 0;
  int first_sample = 0;
  float byte = 128;                  // of every element
  std::vector<float> scale, offset;  // of channels; empty: those of bytes as they are
};

/// Images of one grey after the noise.
std::vector<double> noisy(const Backend& backend, const NoisyImages& images) {
  const auto channels = static_cast<size_t>(images.shape[1]);
  const std::vector<float> scale = images.scale.empty() ? std::vector<float>(channels, 1) : images.scale,
                           offset = images.offset.empty() ? std::vector<float>(channels, 0) : images.offset;
  Program program;
  program.entries.emplace_back("draw");
  Builder build(program, program.entries[0]);
  const TensorSpec numbers{{images.shape[1]}, DType::f32};
  const std::vector<TensorId> in = {program.input("x", {images.shape, DType::f32}),
                                    program.input("sample", {{images.shape[0]}, DType::i32}),
                                    images.step ? program.input("step", {{1}, DType::i32}) : kNone,
                                    program.input("scale", numbers), program.input("offset", numbers)};
  program.entries[0].outputs.push_back({"y", build.emit<Noise>(in, images.rule, images.key)});
  Session session(program, backend);
  std::vector<float> samples(static_cast<size_t>(images.shape[0]));
  std::iota(samples.begin(), samples.end(), static_cast<float>(images.first_sample));
  const int64_t area = images.shape[2] * images.shape[3];
  std::vector<float> x;
  for (int64_t plane = 0; plane < images.shape[0] * images.shape[1]; ++plane) {
    const auto c = static_cast<size_t>(plane % images.shape[1]);
    x.insert(x.end(), static_cast<size_t>(area), images.byte * scale[c] + offset[c]);
  }
  session.set({{"x", x}, {"sample", samples}, {"scale", scale}, {"offset", offset}});
  if (images.step) session.set("step", {static_cast<float>(*images.step)});
  session.run("draw");
  return session.output("draw", "y");
}

std::vector<double> on_reference(const NoisyImages& images) {
  return noisy(make_reference_backend(), images);
}

double share_of(const std::vector<double>& values, double wanted) {
  return static_cast<double>(std::ranges::count(values, wanted)) / static_cast<double>(values.size());
}

/// The mean of the values' powers about the grey, in standard deviations.
double moment(const std::vector<double>& values, double grey, double std, int power) {
  double sum = 0;
  for (const double value : values) sum += std::pow((value - grey) / std, power);
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("normal numbers in float are those in double, for any words") {
  std::vector<uint32_t> words = {0,           255,         256,         511,
                                 0x3FFFFF00u, 0x40000000u, 0x7FFFFFFFu, 0x80000000u,
                                 0xBFFFFFFFu, 0xC0000000u, 0xFFFFFEFFu, 0xFFFFFFFFu};
  RandomStream random(3);
  for (int i = 0; i < 500; ++i) words.push_back(random.next_word());
  double most = 0, largest = 0;
  for (const uint32_t a : words) {
    for (const uint32_t b : words) {
      const DrawnPair<float> narrow = normal_pair<float>(a, b);
      const DrawnPair<double> exact = normal_pair<double>(a, b);
      most = std::max({most, std::abs(narrow.first - exact.first), std::abs(narrow.second - exact.second)});
      largest = std::max({largest, std::abs(exact.first), std::abs(exact.second)});
    }
  }
  CHECK(most < 2e-6);
  CHECK(largest == Approx(std::sqrt(48 * std::log(2.0))));  // of 2^-24
}

TEST_CASE("logarithms and directions in float are within their stated errors") {
  RandomStream random(4);
  for (int i = 0; i < 20000; ++i) {
    const float x =
        std::ldexp(0.5f + 0.5f * random.next_uniform(), static_cast<int>(random.next_below(60)) - 30);
    const double exact = std::log(static_cast<double>(x));
    REQUIRE(std::abs(math::ln(x) - exact) <= 2e-7 * std::abs(exact));
    const float turn = random.next_uniform();
    const auto narrow = math::direction(turn);
    const auto wide = math::direction(static_cast<double>(turn));
    REQUIRE(std::abs(narrow.cosine - wide.cosine) < 1.5e-7);
    REQUIRE(std::abs(narrow.sine - wide.sine) < 1.5e-7);
  }
  CHECK(math::ln(1.0f) == 0);
}

TEST_CASE("the CPU draws the reference's noise, with any number of threads") {
  for (const noise::Rule& rule :
       {noise::Rule(noise::Gaussian{.std = 25, .clips = false}), noise::Rule(noise::Gaussian{.std = 90}),
        noise::Rule(noise::SaltAndPepper{.share = 0.3})}) {
    for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{3, 2, 1, 3}, Shape{2, 3, 7, 5}, Shape{5, 3, 31, 33},
                               Shape{2, 1, 67, 65}}) {
      for (const std::optional<int>& step :
           {std::optional<int>(), std::optional(1), std::optional(1000000)}) {
        NoisyImages images{
            .rule = rule, .shape = shape, .key = 0xFEDCBA9876543210u, .step = step, .first_sample = 3};
        for (int64_t c = 0; c < shape[1]; ++c) {
          images.scale.push_back(0.01f * static_cast<float>(c + 1));
          images.offset.push_back(-1.0f + static_cast<float>(c));
        }
        const std::vector<double> one = noisy(make_cpu_backend(1), images);
        CHECK(relative_error(one, on_reference(images)) < 1e-6);
        CHECK(noisy(make_cpu_backend(2), images) == one);
        CHECK(noisy(make_cpu_backend(3), images) == one);
      }
    }
  }
}

TEST_CASE(
    "Gaussian noise has the mean, deviation, skewness and kurtosis that it should, without correlation") {
  const Shape shape{40, 1, 100, 100};
  const double count = static_cast<double>(numel(shape));
  for (const double std : {5.0, 25.0, 50.0}) {
    for (uint64_t key : {1, 2, 3}) {
      const std::vector<double> y =
          noisy(make_cpu_backend(2),
                {.rule = noise::Gaussian{.std = std, .clips = false}, .shape = shape, .key = key});
      // Four standard errors each: of a normal sample's moments these are sqrt(1, 2, 15, 96) / sqrt(count).
      CHECK(std::abs(moment(y, 128, std, 1)) < 4 / std::sqrt(count));
      CHECK(std::abs(moment(y, 128, std, 2) - 1) < 4 * std::sqrt(2 / count));
      CHECK(std::abs(moment(y, 128, std, 3)) < 4 * std::sqrt(15 / count));
      CHECK(std::abs(moment(y, 128, std, 4) - 3) < 4 * std::sqrt(96 / count));
      for (const size_t lag : {size_t{1}, size_t{2}, size_t{4}, size_t{100}, size_t{10000}}) {
        double sum = 0;
        for (size_t i = lag; i < y.size(); ++i) sum += (y[i] - 128) * (y[i - lag] - 128);
        CHECK(std::abs(sum / std / std / count) < 4.5 / std::sqrt(count));
      }
    }
  }
}

TEST_CASE("as many elements become black and white as should, and no others change") {
  const Shape shape{30, 3, 60, 60};
  const double count = static_cast<double>(numel(shape));
  for (const double share : {0.02, 0.1, 0.5, 1.0}) {
    for (uint64_t key : {1, 2}) {
      const std::vector<double> y = noisy(
          make_cpu_backend(2), {.rule = noise::SaltAndPepper{.share = share}, .shape = shape, .key = key});
      const double black = share_of(y, 0), white = share_of(y, 255);
      CHECK(std::abs(black - share / 2) <= 4 * std::sqrt(share / 2 / count));
      CHECK(std::abs(white - share / 2) <= 4 * std::sqrt(share / 2 / count));
      CHECK(share_of(y, 128) == Approx(1 - black - white));
    }
  }
  CHECK(share_of(noisy(make_cpu_backend(2), {.rule = noise::SaltAndPepper{.share = 1}}), 128) == 0);
}

TEST_CASE("normalised channels get the noise of their bytes, cut at their black and white") {
  for (const bool clips : {false, true}) {
    NoisyImages images{
        .rule = noise::Gaussian{.std = 60, .clips = clips}, .shape = {5, 3, 20, 20}, .byte = 40};
    const std::vector<double> bytes = on_reference(images);
    images.scale = {1.0f / 255, 0.02f, 0.5f}, images.offset = {0, -2, 1};
    const std::vector<double> numbers = on_reference(images);
    const auto [least, most] = std::ranges::minmax(bytes);
    CHECK((least >= 0) == clips);
    if (clips) CHECK(least == 0);
    CHECK(most > 200);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const size_t c = i / 400 % 3;
      const double scale = images.scale[c];
      REQUIRE(numbers[i] ==
              Approx(scale * bytes[i] + static_cast<double>(images.offset[c])).margin(1e-4 * scale));
    }
  }
}

TEST_CASE("a batch in two parts has the noise of the whole") {
  const auto cpu = make_cpu_backend(2);
  for (const std::optional<int>& step : {std::optional<int>(), std::optional(5)}) {
    const std::vector<double> whole = noisy(cpu, {.shape = {8, 3, 5, 7}, .step = step});
    std::vector<double> parts = noisy(cpu, {.shape = {3, 3, 5, 7}, .step = step});
    const std::vector<double> rest = noisy(cpu, {.shape = {5, 3, 5, 7}, .step = step, .first_sample = 3});
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts == whole);
  }
}

TEST_CASE("steps, keys, samples and channels have noise of their own") {
  const std::vector<double> base = on_reference({});
  CHECK(on_reference({}) == base);
  for (const NoisyImages& other :
       {NoisyImages{.step = 1}, NoisyImages{.key = 8}, NoisyImages{.key = (uint64_t{1} << 32) + 7},
        NoisyImages{.first_sample = 1}}) {
    const std::vector<double> drawn = on_reference(other);
    double sum = 0;
    for (size_t i = 0; i < base.size(); ++i) sum += (base[i] - 128) * (drawn[i] - 128) / 625;
    CHECK(std::abs(sum / static_cast<double>(base.size())) < 0.15);  // five standard deviations
    CHECK(drawn != base);
  }
  const std::vector<double> grey = on_reference({.shape = {1, 2, 8, 8}});
  CHECK(!std::equal(grey.begin(), grey.begin() + 64, grey.begin() + 64));
}

TEST_CASE("what is made of noisy images has its gradients") {
  for (const noise::Rule& rule :
       {noise::Rule(noise::Gaussian{.std = 25}), noise::Rule(noise::SaltAndPepper{.share = 0.4})}) {
    for (const Shape& shape : {Shape{3, 2, 5, 3}, Shape{2, 1, 17, 9}}) {
      check_program("noise", [&](Sketch& sketch) {
        const TensorId x = sketch.input("x", shape), samples = sketch.integers("samples", shape[0], 1000),
                       step = sketch.integers("step", 1, 1000), scale = sketch.input("scale", {shape[1]}),
                       offset = sketch.input("offset", {shape[1]});
        for (float& value : sketch.values["scale"]) value = std::abs(value) / 100;
        const TensorId y = sketch.build().emit<Noise>({x, samples, step, scale, offset}, rule, uint64_t{5});
        sketch.output("y", y);
        sketch.loss(
            sketch.build().emit<ScaleChannels>({y, sketch.parameter("s", {shape[0], shape[1], 1, 1})}));
      });
    }
  }
}
