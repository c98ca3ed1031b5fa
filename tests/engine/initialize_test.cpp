// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/engine/executable.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"

using namespace trainer;

namespace {

constexpr uint64_t kSeed = 7;
constexpr double kA = 0.25, kB = 1.5;  // low and high, or mean and standard deviation

/// The definition, element by element.
double expected(Initial::Kind kind, uint64_t key, int64_t i, uint32_t attempt = 0) {
  const Words words = philox(key, {{static_cast<uint32_t>(i / 4), 0, attempt, 0}});
  if (kind == Initial::Kind::uniform) return static_cast<float>(kA + (kB - kA) * uniform(words.v[i % 4]));
  const int64_t pair = i % 4 / 2 * 2;
  const double radius = std::sqrt(-2 * std::log(1.0 - uniform(words.v[pair])));
  const double angle = 2 * std::numbers::pi * uniform(words.v[pair + 1]);
  const double normal = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  if (kind == Initial::Kind::truncated_normal && std::abs(normal) > 2)
    return expected(kind, key, i, attempt + 1);
  return static_cast<float>(kA + kB * normal);
}

Plan plan_of(const std::vector<Tensor>& tensors, const Backend& backend) {
  Program program;
  program.entries.emplace_back("none");
  for (const Tensor& tensor : tensors)
    program.persistent(tensor.name, tensor.spec, Role::state, tensor.initial);
  return make_plan(program, *backend.planner);
}

Tensor state(const std::string& name, const Shape& shape, const Initial& initial) {
  Tensor tensor;
  tensor.name = name;
  tensor.spec = {shape, DType::f32};
  tensor.initial = initial;
  return tensor;
}

std::vector<double> drawn(Initial::Kind kind, int64_t size, int64_t threads = 1) {
  const Backend backend = make_cpu_backend(1);
  Executable executable(plan_of({state("w", {size}, {.kind = kind, .a = kA, .b = kB, .table = {}})}, backend),
                        *backend.device);
  initialize(executable, kSeed, DrawingThreads{threads});
  return executable.read<double>(executable.tensor("w"));
}

}  // namespace

TEST_CASE("each first value depends on key and index alone, however many are drawn and by how many threads") {
  const uint64_t key = random_key(kSeed, "w");
  // The last two are divided among the threads.
  for (const int64_t size : {1, 2, 3, 4, 5, 7, 1023, (1 << 17) + 1, (1 << 20) + 7}) {
    for (const auto kind : {Initial::Kind::uniform, Initial::Kind::normal, Initial::Kind::truncated_normal}) {
      const std::vector<double> found = drawn(kind, size, size % 3 == 0 ? 1000 : 4);
      INFO(size << " values of kind " << static_cast<int>(kind));
      int64_t different = 0;
      for (int64_t i = 0; i < size; ++i) different += found[static_cast<size_t>(i)] != expected(kind, key, i);
      CHECK(different == 0);
    }
  }
}

TEST_CASE("a truncated normal lies within two standard deviations and has the moments of its distribution") {
  const std::vector<double> found = drawn(Initial::Kind::truncated_normal, 1 << 20);
  double sum = 0, squares = 0, furthest = 0;
  for (const double value : found) {
    const double z = (value - kA) / kB;
    sum += z;
    squares += z * z;
    furthest = std::max(furthest, std::abs(z));
  }
  const auto count = static_cast<double>(found.size());
  CHECK(furthest <= 2 + 1e-6);
  CHECK(furthest > 1.99);
  CHECK(std::abs(sum / count) < 5 / std::sqrt(count));
  // The variance is 1 - 4 density(2) / (cdf(2) - cdf(-2)).
  const double variance =
      1 - 4 * std::exp(-2.0) / std::sqrt(2 * std::numbers::pi) / std::erf(std::numbers::sqrt2);
  CHECK(std::abs(squares / count - variance) < 5 / std::sqrt(count));
}

TEST_CASE("first values are those of every release before") {
  const std::vector<double> uniform = drawn(Initial::Kind::uniform, 5),
                            normal = drawn(Initial::Kind::normal, 5);
  const std::vector<double> uniforms{0.55670576, 1.312237, 0.74685404, 0.96849763, 0.56627543};
  const std::vector<double> normals{0.91037217, -0.66145552, -1.0962231, -0.43378526, 0.34996759};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(uniform[i] == Approx(uniforms[i]).epsilon(1e-6));
    CHECK(normal[i] == Approx(normals[i]).epsilon(1e-6));
  }
}

TEST_CASE("a number for all elements reaches every element and leaves padding zero") {
  const Layout padded{
      .dims = {3, 2}, .padded = {4, 2}, .strides = {4, 2}, .block_sizes = {2}, .block_dims = {0}};
  const Backend backend = make_reference_backend();
  const Initial two{.kind = Initial::Kind::fill, .a = 2, .b = 0, .table = {}};
  // The last one is longer than the pieces that are written.
  Plan plan = plan_of({state("padded", {3, 2}, two), state("after", {64}, two), state("long", {300001}, two)},
                      backend);
  const auto id = plan.find("padded");
  plan.placements[static_cast<size_t>(id)].layout = padded;  // its room is rounded up to more
  Executable executable(std::move(plan), *backend.device);
  initialize(executable, kSeed);
  CHECK(executable.read<double>(id) == std::vector<double>(6, 2));
  CHECK(executable.read<double>(executable.tensor("after")) == std::vector<double>(64, 2));
  CHECK(executable.read<double>(executable.tensor("long")) == std::vector<double>(300001, 2));
  const auto* stored = static_cast<const double*>(executable.address(id));
  double sum = 0;
  for (int64_t i = 0; i < stored_elements(padded, {3, 2}); ++i) sum += stored[i];
  CHECK(sum == 12);
}
