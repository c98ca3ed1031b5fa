// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>
#include "tests/catch.h"

#include "core/base/bfloat16.h"
#include "core/base/rng.h"
#include "cpu/winograd/instructions.h"
#include "cpu/winograd/orders.h"
#include "tests/sanitized.h"

namespace trainer::cpu::winograd {
namespace {

constexpr double kTolerance = 3e-6;
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

/// A tensor (outer, channels, inner) in blocks of channels, and the same in rows.
struct Images {
  int64_t outer, channels, inner, lanes;
  std::vector<double> rows;

  Images(int64_t n, int64_t c, int64_t pixels, int64_t width)
      : outer(n), channels(c), inner(pixels), lanes(width), rows(static_cast<size_t>(n * c * pixels)) {}

  size_t stored() const { return static_cast<size_t>(outer * blocks_of(channels, lanes) * lanes * inner); }
  /// Calls visit(place in blocks, place in rows, or -1 for a lane without a channel).
  template <class Visit>
  void each(const Visit& visit) const {
    for (size_t i = 0; i < stored(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t pixel = at / lanes % inner, block = at / lanes / inner % blocks_of(channels, lanes);
      const int64_t n = at / lanes / inner / blocks_of(channels, lanes), c = block * lanes + at % lanes;
      visit(i, c < channels ? (n * channels + c) * inner + pixel : -1);
    }
  }
  std::vector<float> blocked() const {
    std::vector<float> values(stored());
    each([&](size_t i, int64_t row) {
      values[i] = row < 0 ? 0 : static_cast<float>(rows[static_cast<size_t>(row)]);
    });
    return values;
  }
};

/// Weights (outputs, inputs, 3, 3), likewise.
struct Weights {
  int64_t outputs, inputs, lanes;
  std::vector<double> rows;

  Weights(int64_t o, int64_t i, int64_t width)
      : outputs(o), inputs(i), lanes(width), rows(static_cast<size_t>(o * i * 9)) {}

  size_t stored() const {
    return static_cast<size_t>(blocks_of(outputs, lanes) * blocks_of(inputs, lanes) * 9 * lanes * lanes);
  }
  template <class Visit>
  void each(const Visit& visit) const {
    for (size_t place = 0; place < stored(); ++place) {
      const auto at = static_cast<int64_t>(place);
      const int64_t tap = at / lanes / lanes % 9, block = at / lanes / lanes / 9;
      const int64_t o = block / blocks_of(inputs, lanes) * lanes + at % lanes;
      const int64_t i = block % blocks_of(inputs, lanes) * lanes + at / lanes % lanes;
      visit(place, o < outputs && i < inputs ? (o * inputs + i) * 9 + tap : -1);
    }
  }
  std::vector<float> blocked() const {
    std::vector<float> values(stored());
    each([&](size_t i, int64_t row) {
      values[i] = row < 0 ? 0 : static_cast<float>(rows[static_cast<size_t>(row)]);
    });
    return values;
  }
};

void draw(std::vector<double>& values, RandomStream& random) {
  for (double& value : values) value = 2 * random.next_uniform() - 1;
}

/// The norm of the differences, relative to that of the expected values.
double error_of(const std::vector<float>& found, const std::vector<double>& expected) {
  double differences = 0, squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    differences += std::pow(found[i] - expected[i], 2);
    squares += expected[i] * expected[i];
  }
  return std::sqrt(differences / squares);
}

/// The same of blocks and rows; infinite if a lane without a channel is not zero.
template <class Tensor>
double error_of(const std::vector<float>& found, const Tensor& expected) {
  std::vector<double> stored(found.size());
  bool zeros_stay = true;
  expected.each([&](size_t i, int64_t row) {
    if (row >= 0) stored[i] = expected.rows[static_cast<size_t>(row)];
    if (row < 0 && found[i] != 0) zeros_stay = false;
  });
  return zeros_stay ? error_of(found, stored) : std::numeric_limits<double>::infinity();
}

/// A convolution's tensors and the expected results of its three directions, by the definition and in double.
struct Sample {
  Geometry g;
  Images x, y, dx, dy;
  Weights w, dw;
  std::vector<float> bias;
  std::vector<double> db;

  Sample(
      const Geometry& geometry, int64_t lanes, uint64_t seed,
      const std::function<void(Sample&)>& change = [](Sample&) {})
      : g(geometry),
        x(g.images, g.inputs, g.height * g.width, lanes),
        y(g.images, g.outputs, g.y_height * g.y_width, lanes),
        dx(x),
        dy(y),
        w(g.outputs, g.inputs, lanes),
        dw(w),
        bias(static_cast<size_t>(g.outputs)),
        db(bias.size()) {
    RandomStream random(seed);
    draw(x.rows, random);
    draw(dy.rows, random);
    draw(w.rows, random);
    for (float& value : bias) value = 2 * random.next_uniform() - 1;
    change(*this);
    for (int64_t plane = 0; plane < g.images * g.outputs; ++plane) convolve(plane);
  }

  void convolve(int64_t plane) {
    const int64_t n = plane / g.outputs, o = plane % g.outputs;
    for (int64_t i = 0; i < g.y_height * g.y_width; ++i) {
      const auto at = static_cast<size_t>(plane * g.y_height * g.y_width + i);
      y.rows[at] = bias[static_cast<size_t>(o)];
      db[static_cast<size_t>(o)] += dy.rows[at];
      for (int64_t c = 0; c < g.inputs; ++c) add_products(n, o, c, i / g.y_width, i % g.y_width, at);
    }
  }

  void add_products(int64_t n, int64_t o, int64_t c, int64_t row, int64_t column, size_t at) {
    for (int64_t tap = 0; tap < 9; ++tap) {
      const int64_t i = row + tap / 3 - g.top, j = column + tap % 3 - g.left;
      if (i < 0 || j < 0 || i >= g.height || j >= g.width) continue;
      const auto in = static_cast<size_t>(((n * g.inputs + c) * g.height + i) * g.width + j);
      const auto weight = static_cast<size_t>((o * g.inputs + c) * 9 + tap);
      y.rows[at] += x.rows[in] * w.rows[weight];
      dx.rows[in] += dy.rows[at] * w.rows[weight];
      dw.rows[weight] += x.rows[in] * dy.rows[at];
    }
  }
};

/// Poisoned memory, aligned as the arena's, with a guard after it.
class Memory {
 public:
  explicit Memory(int64_t floats)
      : count_(floats), values_(static_cast<size_t>(floats) + 2 * kGuard, kPoison) {
    const auto address = reinterpret_cast<uintptr_t>(values_.data());
    first_ = (64 - address % 64) % 64 / sizeof(float);
  }
  float* data() { return values_.data() + first_; }
  std::vector<float> values() const {
    return {values_.begin() + static_cast<int64_t>(first_),
            values_.begin() + static_cast<int64_t>(first_) + count_};
  }
  bool guard_is_intact() const {
    return std::all_of(values_.begin() + static_cast<int64_t>(first_) + count_, values_.end(),
                       [](float value) { return std::isnan(value); });
  }

 private:
  static constexpr size_t kGuard = 32;
  int64_t count_;
  std::vector<float> values_;
  size_t first_;
};

std::vector<float> run_forward(const Forward& forward, const std::vector<float>& x,
                               const std::vector<float>& w, const float* bias, bool relu, size_t stored) {
  Memory y(static_cast<int64_t>(stored)), workspace(forward.workspace_floats());
  forward.run({x.data(), w.data(), bias, relu, y.data(), workspace.data()});
  CHECK(y.guard_is_intact());
  CHECK(workspace.guard_is_intact());
  return y.values();
}

using MakeForward = std::unique_ptr<Forward> (*)(const Kernels&, const Geometry&, bool, int64_t);
using MakeGradient = std::unique_ptr<BackwardWeights> (*)(const Kernels&, const Geometry&, int64_t);

void check_forward(const Kernels& kernels, const Sample& sample, int64_t threads) {
  std::vector<std::vector<float>> results;
  for (const MakeForward create : {forward_by_tiles, forward_by_outputs}) {
    const auto forward = create(kernels, sample.g, false, threads);
    const auto y = run_forward(*forward, sample.x.blocked(), sample.w.blocked(), sample.bias.data(), false,
                               sample.y.stored());
    CHECK(error_of(y, sample.y) <= kTolerance);
    const auto clamped = run_forward(*forward, sample.x.blocked(), sample.w.blocked(), sample.bias.data(),
                                     true, sample.y.stored());
    auto expected = y;
    for (float& value : expected) value = std::max(value, 0.0f);
    CHECK(clamped == expected);
    const auto backward = create(kernels, sample.g.reversed(), true, threads);
    const auto dx =
        run_forward(*backward, sample.dy.blocked(), sample.w.blocked(), nullptr, false, sample.dx.stored());
    CHECK(error_of(dx, sample.dx) <= kTolerance);
    results.push_back(y);
    results.push_back(dx);
  }
  CHECK(results[0] == results[2]);  // the order of work does not affect sums
  CHECK(results[1] == results[3]);
}

void check_gradient(const Kernels& kernels, const Sample& sample, int64_t threads) {
  for (const MakeGradient create : {backward_weights_by_tiles, backward_weights_by_blocks}) {
    const auto gradient = create(kernels, sample.g, threads);
    Memory dw(static_cast<int64_t>(sample.dw.stored())), db(sample.g.outputs),
        workspace(gradient->workspace_floats());
    const auto x = sample.x.blocked(), dy = sample.dy.blocked();
    gradient->run({x.data(), dy.data(), dw.data(), db.data(), workspace.data()});
    CHECK(error_of(dw.values(), sample.dw) <= kTolerance);
    CHECK(dw.guard_is_intact());
    CHECK(db.guard_is_intact());
    CHECK(workspace.guard_is_intact());
    CHECK(error_of(db.values(), sample.db) <= kTolerance);
    const auto first = dw.values();
    gradient->run({x.data(), dy.data(), dw.data(), nullptr, workspace.data()});
    CHECK(dw.values() == first);
  }
}

/// Values rounded to bf16, as bits.
std::vector<uint16_t> narrowed(const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) put(values[i], reinterpret_cast<BFloat16&>(bits[i]));
  return bits;
}
/// Whether they are rounded to nearest: at most half a unit of the last of 8 bits away, plus the difference
/// of two compilations of the same sums.
bool are_rounded(const std::vector<uint16_t>& bits, const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto found = static_cast<float>(reinterpret_cast<const BFloat16&>(bits[i]));
    if (!(std::abs(found - values[i]) <= std::abs(values[i]) * 0x1p-8f + 1e-5f)) return false;
  }
  return true;
}
std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = static_cast<float>(BFloat16(value));
  return values;
}

void check_bf16_storage(const Kernels& wide, const Kernels& narrow, const Sample& sample, int64_t threads) {
  const auto x = rounded(sample.x.blocked()), dy = rounded(sample.dy.blocked()),
             w = rounded(sample.w.blocked()), bias = rounded(sample.bias);
  const auto x16 = narrowed(x), dy16 = narrowed(dy), w16 = narrowed(w), bias16 = narrowed(bias);
  for (const MakeForward create : {forward_by_tiles, forward_by_outputs}) {
    for (const bool reversed : {false, true}) {
      const Geometry g = reversed ? sample.g.reversed() : sample.g;
      const auto expected = create(wide, g, reversed, threads), found = create(narrow, g, reversed, threads);
      const size_t stored = (reversed ? sample.dx : sample.y).stored();
      std::vector<uint16_t> y16(stored, 0x7FFF);
      Memory workspace(found->workspace_floats());
      if (reversed) {
        const auto y = run_forward(*expected, dy, w, nullptr, false, stored);
        found->run({dy16.data(), w16.data(), nullptr, false, y16.data(), workspace.data()});
        CHECK(are_rounded(y16, y));
      } else {
        const auto y = run_forward(*expected, x, w, bias.data(), true, stored);
        found->run({x16.data(), w16.data(), bias16.data(), true, y16.data(), workspace.data()});
        CHECK(are_rounded(y16, y));
      }
      CHECK(workspace.guard_is_intact());
    }
  }
  for (const MakeGradient create : {backward_weights_by_tiles, backward_weights_by_blocks}) {
    std::vector<std::vector<float>> results;
    for (const Kernels* kernels : {&wide, &narrow}) {
      const auto gradient = create(*kernels, sample.g, threads);
      Memory dw(static_cast<int64_t>(sample.dw.stored())), db(sample.g.outputs),
          workspace(gradient->workspace_floats());
      const bool is_wide = kernels == &wide;
      gradient->run({is_wide ? static_cast<const void*>(x.data()) : x16.data(),
                     is_wide ? static_cast<const void*>(dy.data()) : dy16.data(), dw.data(), db.data(),
                     workspace.data()});
      results.push_back(dw.values());
      results.push_back(db.values());
    }
    for (const size_t i : {0, 1})
      CHECK(error_of(results[i + 2], std::vector<double>(results[i].begin(), results[i].end())) <= 1e-6);
  }
}

Geometry geometry_of(int64_t images, int64_t inputs, int64_t outputs, int64_t height, int64_t width,
                     int64_t top, int64_t left) {
  return {.images = images,
          .inputs = inputs,
          .outputs = outputs,
          .height = height,
          .width = width,
          .y_height = height + 2 * top - 2,
          .y_width = width + 2 * left - 2,
          .top = top,
          .left = left};
}

void check_all(const Geometry& g, std::initializer_list<int64_t> threads) {
  constexpr uint64_t kSeeds = few_or_all<uint64_t>(1, 2);
  for (const Kernels* kernels : usable_kernels(Storage::f32)) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Sample sample(g, kernels->lanes, seed);
      for (const int64_t count : threads) {
        INFO(fmt::format("{}, {} x {} -> {}, {} x {}, padding {} x {}, {} threads, seed {}", kernels->name,
                         g.images, g.inputs, g.outputs, g.height, g.width, g.top, g.left, count, seed));
        check_forward(*kernels, sample, count);
        check_gradient(*kernels, sample, count);
      }
    }
  }
}

/// If the definition gives NaN or infinity, so must the result; all else may be a neighbour in its tile.
template <class Tensor>
void check_arrival(const std::vector<float>& found, const Tensor& expected, bool relu) {
  int64_t lost = 0;
  expected.each([&](size_t i, int64_t row) {
    if (row < 0) return;
    const double value = expected.rows[static_cast<size_t>(row)];
    if (!std::isfinite(value) && !(relu && value < 0)) lost += std::isfinite(found[i]);
  });
  CHECK(lost == 0);
}

std::vector<float> widened(const std::vector<uint16_t>& bits) {
  std::vector<float> values(bits.size());
  for (size_t i = 0; i < bits.size(); ++i)
    values[i] = static_cast<float>(reinterpret_cast<const BFloat16&>(bits[i]));
  return values;
}

/// All directions of a sample in which one value is not finite.
void check_planted(const Kernels& wide, const Kernels& narrow, const Geometry& g,
                   const std::function<void(Sample&)>& plant) {
  const Sample sample(g, wide.lanes, 4, plant);
  const auto x = sample.x.blocked(), w = sample.w.blocked(), dy = sample.dy.blocked();
  const auto x16 = narrowed(x), w16 = narrowed(w), dy16 = narrowed(dy), bias16 = narrowed(sample.bias);
  for (const MakeForward create : {forward_by_tiles, forward_by_outputs}) {
    const auto forward = create(wide, g, false, 1), backward = create(wide, g.reversed(), true, 1);
    check_arrival(run_forward(*forward, x, w, sample.bias.data(), true, sample.y.stored()), sample.y, true);
    check_arrival(run_forward(*backward, dy, w, nullptr, false, sample.dx.stored()), sample.dx, false);
    const auto stored = create(narrow, g, false, 1);
    std::vector<uint16_t> y16(sample.y.stored());
    Memory workspace(stored->workspace_floats());
    stored->run({x16.data(), w16.data(), bias16.data(), true, y16.data(), workspace.data()});
    check_arrival(widened(y16), sample.y, true);
  }
  for (const MakeGradient create : {backward_weights_by_tiles, backward_weights_by_blocks}) {
    const auto gradient = create(wide, g, 1);
    Memory dw(static_cast<int64_t>(sample.dw.stored())), workspace(gradient->workspace_floats());
    gradient->run({x.data(), dy.data(), dw.data(), nullptr, workspace.data()});
    check_arrival(dw.values(), sample.dw, false);
  }
}

}  // namespace

TEST_CASE("Winograd convolutions agree with double at every dimension and padding") {
  for (int64_t size = 1; size <= 19; size += few_or_all<int64_t>(4, 1)) {
    for (const int64_t padding : {0, 1, 2}) {
      const int64_t other = (size * 7 + 3) % 19 + 1, narrow = (padding + 1) % 3;
      if (size + 2 * padding < 3 || other + 2 * narrow < 3) continue;
      check_all(geometry_of(size % 3 + 1, 17, 9, size, other, padding, narrow), {2});
    }
  }
}

TEST_CASE("Winograd convolutions agree with double for every number of channels, tiles and threads") {
  size_t number = 0;
  for (const int64_t inputs : {8, 16, 31, 48, 150}) {
    for (const int64_t outputs : {8, 32, 33, 80}) {
      if (number++ % few_or_all<size_t>(3, 1) == 0)
        check_all(geometry_of(1, inputs, outputs, 9, 5, 1, 1), {1, 3});
    }
  }
  check_all(geometry_of(1, 16, 16, 2, 2, 1, 1), {1, 7});  // more threads than tiles
  check_all(geometry_of(5, 33, 70, 7, 7, 1, 1), {1, 4, 13});
  check_all(geometry_of(9, 16, 16, 19, 17, 1, 1), {2, 5});  // the weights' gradient in several passes
  check_all(geometry_of(2, 300, 24, 6, 6, 1, 1), {2});      // products in several passes
}

TEST_CASE("a forward Winograd convolution has the same bits for every number of threads") {
  const Geometry g = geometry_of(3, 24, 40, 11, 10, 1, 1);
  for (const Kernels* kernels : usable_kernels(Storage::f32)) {
    const Sample sample(g, kernels->lanes, 3);
    std::vector<std::vector<float>> results;
    for (const int64_t threads : {1, 2, 5, 64}) {
      const auto forward = forward_by_tiles(*kernels, g, false, threads);
      results.push_back(
          run_forward(*forward, sample.x.blocked(), sample.w.blocked(), nullptr, false, sample.y.stored()));
      CHECK(results.back() == results.front());
    }
  }
}

TEST_CASE("tensors in bf16 give the rounded results of tensors in f32") {
  const auto wide = usable_kernels(Storage::f32), narrow = usable_kernels(Storage::bf16);
  for (const Geometry& g : {geometry_of(2, 17, 40, 9, 7, 1, 1), geometry_of(1, 150, 33, 6, 11, 0, 2),
                            geometry_of(7, 16, 16, 19, 17, 1, 1)}) {
    for (size_t i = 0; i < wide.size(); ++i) {
      for (const int64_t threads : {1, 3}) {
        INFO(fmt::format("{}, {} inputs, {} threads", wide[i]->name, g.inputs, threads));
        check_bf16_storage(*wide[i], *narrow[i], Sample(g, wide[i]->lanes, 6), threads);
      }
    }
  }
}

TEST_CASE("what is not a number stays none through a Winograd convolution and its relu in any storage") {
  const Geometry g = geometry_of(1, 16, 16, 8, 8, 1, 1);
  const auto wide = usable_kernels(Storage::f32), narrow = usable_kernels(Storage::bf16);
  for (const float value : {kPoison, std::numeric_limits<float>::infinity()}) {
    for (size_t i = 0; i < wide.size(); ++i) {
      INFO(wide[i]->name << ", " << value);
      check_planted(*wide[i], *narrow[i], g, [=](Sample& sample) { sample.x.rows[0] = value; });
      check_planted(*wide[i], *narrow[i], g, [=](Sample& sample) { sample.w.rows[9 * 16 + 4] = -value; });
      check_planted(*wide[i], *narrow[i], g, [=](Sample& sample) { sample.bias[5] = value; });
      check_planted(*wide[i], *narrow[i], g, [=](Sample& sample) { sample.dy.rows[70] = value; });
    }
  }
}

}  // namespace trainer::cpu::winograd
