// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include "tests/catch.h"

#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

struct Statistics {
  double mean = 0, deviation = 0, low = 0, high = 0;
};

Statistics statistics_of(const std::vector<double>& values) {
  Statistics s{.low = values[0], .high = values[0]};
  for (double v : values) {
    s.mean += v / static_cast<double>(values.size());
    s.low = std::min(s.low, v);
    s.high = std::max(s.high, v);
  }
  for (double v : values) s.deviation += (v - s.mean) * (v - s.mean);
  s.deviation = std::sqrt(s.deviation / static_cast<double>(values.size()));
  return s;
}

/// First values of the parameters of one convolution (fan_in 8 * 9, fan_out 64 * 9) with this initialiser.
struct Convolution {
  std::vector<double> weight, bias;
  explicit Convolution(const std::string& init, uint64_t seed = 1) {
    const Backend backend = make_reference_backend();
    const Network network =
        network_from("{input: [8, 5, 5], layers: [{conv2d: {name: c, out_channels: 64, kernel_size: 3" +
                     init + "}}, flatten, {linear: 3}]}");
    Session session(forward_program(network, 1), backend, seed);
    weight = session.persistent("c.weight");
    bias = session.persistent("c.bias");
  }
};

constexpr double kFanIn = 8 * 9, kFanOut = 64 * 9;

void check_uniform(const std::vector<double>& values, double bound) {
  const Statistics s = statistics_of(values);
  const double slack = 5 / std::sqrt(static_cast<double>(values.size()));  // five standard errors
  CHECK(s.low >= -bound);
  CHECK(s.high <= bound);
  CHECK(std::abs(s.mean) < slack * bound / std::sqrt(3.0));
  CHECK(s.deviation == Approx(bound / std::sqrt(3.0)).epsilon(slack));
}

void check_normal(const std::vector<double>& values, double deviation) {
  const Statistics s = statistics_of(values);
  const double slack = 5 / std::sqrt(static_cast<double>(values.size()));
  CHECK(std::abs(s.mean) < slack * deviation);
  CHECK(s.deviation == Approx(deviation).epsilon(slack));
  CHECK(s.high > 2.5 * deviation);
  CHECK(s.low < -2.5 * deviation);
  double within = 0;
  for (double v : values) within += std::abs(v) < deviation;
  CHECK(within / static_cast<double>(values.size()) == Approx(0.6827).margin(slack));
}

void check_zero(const std::vector<double>& values) {
  for (double v : values) REQUIRE(v == 0);
}

}  // namespace

TEST_CASE("weights begin as PyTorch's do by default") {
  for (uint64_t seed : {1, 2, 3}) {
    const Convolution c("", seed);
    check_uniform(c.weight, 1 / std::sqrt(kFanIn));
    check_uniform(c.bias, 1 / std::sqrt(kFanIn));
  }
}

TEST_CASE("named initialisers have their spread, and biases of zero") {
  for (uint64_t seed : {1, 2, 3}) {
    check_normal(Convolution(", init: kaiming_normal", seed).weight, std::sqrt(2 / kFanOut));
    check_uniform(Convolution(", init: kaiming_uniform", seed).weight, std::sqrt(6 / kFanOut));
    check_normal(Convolution(", init: kaiming_normal_fan_in", seed).weight, std::sqrt(2 / kFanIn));
    check_uniform(Convolution(", init: kaiming_uniform_fan_in", seed).weight, std::sqrt(6 / kFanIn));
    check_normal(Convolution(", init: xavier_normal", seed).weight, std::sqrt(2 / (kFanIn + kFanOut)));
    check_uniform(Convolution(", init: xavier_uniform", seed).weight, std::sqrt(6 / (kFanIn + kFanOut)));
    check_normal(Convolution(", init: normal, init_std: 0.5", seed).weight, 0.5);
    check_uniform(Convolution(", init: uniform, init_std: 0.5", seed).weight, 0.5 * std::sqrt(3.0));
    const Statistics cut = statistics_of(Convolution(", init: trunc_normal, init_std: 0.5", seed).weight);
    CHECK(cut.low >= -1);
    CHECK(cut.high <= 1);
    CHECK(cut.deviation == Approx(0.5 * std::sqrt(0.77374)).epsilon(0.05));
  }
  check_zero(Convolution(", init: zeros").weight);
  for (const char* init : {"kaiming_normal", "xavier_uniform", "normal", "uniform", "zeros"}) {
    check_zero(Convolution(std::string(", init: ") + init).bias);
  }
}

TEST_CASE("first values depend on seed and name only") {
  const Backend backend = make_reference_backend();
  auto weight_of = [&](const std::string& layers, uint64_t seed, const std::string& name) {
    Session session(forward_program(network_from("{input: [3, 4, 4], layers: [flatten, " + layers + "]}"), 2),
                    backend, seed);
    return session.persistent(name);
  };
  const std::string a = "{linear: {name: a, out_features: 6}}", b = "{linear: {name: b, out_features: 48}}";
  const std::vector<double> base = weight_of(a, 1, "a.weight");
  CHECK(weight_of(a, 1, "a.weight") == base);
  CHECK(weight_of(b + ", " + a, 1, "a.weight") == base);  // other layers change nothing
  CHECK(weight_of(a, 2, "a.weight") != base);
  CHECK(weight_of("{linear: {name: other, out_features: 6}}", 1, "other.weight") != base);
}
