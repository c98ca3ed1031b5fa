// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions by this program's Winograd kernels beside oneDNN's, and how far ours are from double. Run
// by hand: build/release/bin/bench_winograd all 3 check. ONEDNN_MAX_CPU_ISA restricts both to older
// instructions.
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu/onednn.h"
#include "cpu/winograd/convolution.h"
#include "cpu/winograd/instructions.h"

namespace trainer::cpu {
namespace {

using winograd::Geometry;

struct Named {
  const char* name;
  Geometry geometry;
};

Named square(const char* name, int64_t images, int64_t inputs, int64_t outputs, int64_t pixels) {
  return {name,
          {.images = images,
           .inputs = inputs,
           .outputs = outputs,
           .height = pixels,
           .width = pixels,
           .y_height = pixels,
           .y_width = pixels,
           .top = 1,
           .left = 1}};
}

/// The 3x3 convolutions of ResNet-18 on 32x32 pixels, of ResNet-50 on 224x224, and of the CNN of the
/// quickstart.
std::vector<Named> all_shapes() {
  return {square("r18_64", 128, 64, 64, 32),   square("r18_128", 128, 128, 128, 16),
          square("r18_256", 128, 256, 256, 8), square("r18_512", 128, 512, 512, 4),
          square("r50_64", 16, 64, 64, 56),    square("r50_128", 16, 128, 128, 28),
          square("r50_256", 16, 256, 256, 14), square("r50_512", 16, 512, 512, 7),
          square("cnn", 128, 32, 64, 14)};
}

/// Random numbers, zero in lanes that no channel has.
std::vector<float> blocked(int64_t outer, int64_t channels, int64_t inner, int64_t lanes, unsigned seed) {
  const int64_t blocks = winograd::blocks_of(channels, lanes);
  std::vector<float> values(static_cast<size_t>(outer * blocks * inner * lanes));
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t lane = static_cast<int64_t>(i) % lanes,
                  block = static_cast<int64_t>(i) / lanes / inner % blocks;
    if (block * lanes + lane < channels) values[i] = uniform(random);
  }
  return values;
}

double milliseconds_of(const std::function<void()>& work, double seconds) {
  using Clock = std::chrono::steady_clock;
  double shortest = 1e30;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int run = 0; run < 4 || Clock::now() < end; ++run) {
    const auto before = Clock::now();
    work();
    shortest = std::min(shortest, std::chrono::duration<double, std::milli>(Clock::now() - before).count());
  }
  return shortest;
}

#define TRAINER_REGISTERS                                                                                    \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "xmm15"
#define TRAINER_FMA(number) "vfmadd213ps %%ymm15, %%ymm14, %%ymm" #number "\n\t"
/// 12 multiply-adds of 8 lanes a round, in registers; nothing else.
void multiply_add(int64_t rounds) {
  asm volatile("vzeroall" : : : TRAINER_REGISTERS);  // old values could be slow: denormals
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(TRAINER_FMA(0) TRAINER_FMA(1) TRAINER_FMA(2) TRAINER_FMA(3) TRAINER_FMA(4) TRAINER_FMA(5)
                     TRAINER_FMA(6) TRAINER_FMA(7) TRAINER_FMA(8) TRAINER_FMA(9) TRAINER_FMA(10)
                         TRAINER_FMA(11)
                 :
                 :
                 : TRAINER_REGISTERS);
  }
}
#undef TRAINER_FMA
#undef TRAINER_REGISTERS

/// GFLOP/s of all threads; those of 512 bits take twice as long on all processors measured so far.
double peak() {
  constexpr int64_t kRounds = 4'000'000;
  double most = 0;
  for (int run = 0; run < 5; ++run) {
    const double spent = milliseconds_of(
        [] {
#pragma omp parallel
          multiply_add(kRounds / 4);
        },
        0);
    most = std::max(most, 12.0 * 16 * (kRounds / 4) * omp_get_max_threads() / spent / 1e6);
  }
  return most;
}

struct Tensors {
  std::vector<float> x, w, y, dx, dw, dy, db;

  Tensors(const Geometry& g, int64_t lanes)
      : x(blocked(g.images, g.inputs, g.height * g.width, lanes, 1)),
        w(blocked(winograd::blocks_of(g.outputs, lanes) * winograd::blocks_of(g.inputs, lanes), lanes,
                  9 * lanes, lanes, 2)),
        y(blocked(g.images, g.outputs, g.y_height * g.y_width, lanes, 3)),
        dx(x.size()),
        dw(w.size()),
        dy(y),
        db(static_cast<size_t>(g.outputs)) {}
};

struct Race {
  double direct = 0, onednn = 0, ours = 0, error = 0;  ///< milliseconds, 0 if there is none; relative
};

constexpr const char* kDirections[] = {"forward", "data", "weights"};

std::function<void()> our_run(const winograd::Kernels& kernels, const Geometry& g, int direction, Tensors& t,
                              std::vector<float>& workspace) {
  const int threads = omp_get_max_threads();
  auto room = [&](int64_t floats) {
    workspace.resize(static_cast<size_t>(floats + 16));
    const auto address = reinterpret_cast<uintptr_t>(workspace.data());
    return workspace.data() + (64 - address % 64) % 64 / sizeof(float);
  };
  if (direction == 2) {
    std::shared_ptr<winograd::BackwardWeights> gradient = make_backward_weights(kernels, g, threads);
    float* place = room(gradient->workspace_floats());
    return [=, &t] { gradient->run({t.x.data(), t.dy.data(), t.dw.data(), nullptr, place}); };
  }
  const bool reversed = direction == 1;
  std::shared_ptr<winograd::Forward> forward =
      make_forward(kernels, reversed ? g.reversed() : g, reversed, threads);
  float* place = room(forward->workspace_floats());
  if (reversed)
    return [=, &t] { forward->run({t.dy.data(), t.w.data(), nullptr, false, t.dx.data(), place}); };
  return [=, &t] { forward->run({t.x.data(), t.w.data(), nullptr, false, t.y.data(), place}); };
}

/// y, dx and dw in double by the definition, from tensors in blocks.
std::vector<double> exact(const Geometry& g, int direction, const Tensors& t, int64_t lanes) {
  const int64_t in_blocks = winograd::blocks_of(g.inputs, lanes),
                out_blocks = winograd::blocks_of(g.outputs, lanes);
  const int64_t x_plane = g.height * g.width * lanes, y_plane = g.y_height * g.y_width * lanes,
                w_block = 9 * lanes * lanes;
  std::vector<double> result(direction == 0 ? t.y.size() : direction == 1 ? t.dx.size() : t.dw.size());
  const int64_t tasks = direction == 0   ? g.images * out_blocks
                        : direction == 1 ? g.images * in_blocks
                                         : in_blocks * out_blocks;
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t first = direction == 2 ? 0 : task / (direction == 0 ? out_blocks : in_blocks);
    const int64_t last = direction == 2 ? g.images : first + 1;
    const int64_t ib0 = direction == 0 ? 0 : direction == 1 ? task % in_blocks : task % in_blocks;
    const int64_t ib1 = direction == 0 ? in_blocks : ib0 + 1;
    const int64_t ob0 = direction == 0 ? task % out_blocks : direction == 1 ? 0 : task / in_blocks;
    const int64_t ob1 = direction == 1 ? out_blocks : ob0 + 1;
    for (int64_t n = first; n < last; ++n)
      for (int64_t ib = ib0; ib < ib1; ++ib)
        for (int64_t ob = ob0; ob < ob1; ++ob)
          for (int64_t row = 0; row < g.y_height; ++row)
            for (int64_t column = 0; column < g.y_width; ++column)
              for (int64_t r = 0; r < 3; ++r)
                for (int64_t s = 0; s < 3; ++s) {
                  const int64_t i = row + r - g.top, j = column + s - g.left;
                  if (i < 0 || j < 0 || i >= g.height || j >= g.width) continue;
                  const int64_t x_at = (n * in_blocks + ib) * x_plane + (i * g.width + j) * lanes;
                  const int64_t y_at = (n * out_blocks + ob) * y_plane + (row * g.y_width + column) * lanes;
                  const int64_t w_at = (ob * in_blocks + ib) * w_block + (r * 3 + s) * lanes * lanes;
                  for (int64_t c = 0; c < lanes; ++c) {
                    double sum = 0;
                    for (int64_t k = 0; k < lanes; ++k) {
                      const size_t x = static_cast<size_t>(x_at + c),
                                   w = static_cast<size_t>(w_at + c * lanes + k),
                                   y = static_cast<size_t>(y_at + k);
                      if (direction == 0) result[y] += double{t.x[x]} * t.w[w];
                      if (direction == 1) sum += double{t.dy[y]} * t.w[w];
                      if (direction == 2) result[w] += double{t.x[x]} * t.dy[y];
                    }
                    if (direction == 1) result[static_cast<size_t>(x_at + c)] += sum;
                  }
                }
  }
  return result;
}

double relative_error(const std::vector<double>& expected, const std::vector<float>& found) {
  double differences = 0, squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    differences += std::pow(expected[i] - found[i], 2);
    squares += std::pow(expected[i], 2);
  }
  return std::sqrt(differences / squares);
}

dnnl::memory::desc any(int64_t a, int64_t b, int64_t c, int64_t d) {
  return any_layout({a, b, c, d});
}

double onednn_milliseconds(const OneDnn& onednn, const Geometry& g, int direction, dnnl::algorithm how) {
  const auto x = any(g.images, g.inputs, g.height, g.width), w = any(g.outputs, g.inputs, 3, 3),
             y = any(g.images, g.outputs, g.y_height, g.y_width);
  const dnnl::memory::dims ones{1, 1}, padding{g.top, g.left};
  const auto attributes = with_user_scratchpad();
  using Forward = dnnl::convolution_forward;
  auto forward = [&](dnnl::algorithm a) {
    return Forward::primitive_desc({dnnl::prop_kind::forward_training, a, x, w, y, ones, padding, padding},
                                   attributes, onednn.engine);
  };
  try {
    if (direction == 0) return milliseconds<Forward>(onednn, forward(how));
    const auto hint = forward(dnnl::algorithm::convolution_direct);
    if (direction == 1) {
      using Data = dnnl::convolution_backward_data;
      return milliseconds<Data>(onednn,
                                {{how, x, w, y, ones, padding, padding}, attributes, onednn.engine, hint});
    }
    using Weights = dnnl::convolution_backward_weights;
    return milliseconds<Weights>(onednn,
                                 {{how, x, w, y, ones, padding, padding}, attributes, onednn.engine, hint});
  } catch (const dnnl::error&) {
    return 0;  // there is none
  }
}

void run_shape(const OneDnn& onednn, const winograd::Kernels& kernels, const Named& shape, double peak_rate,
               bool check, int runs) {
  const Geometry& g = shape.geometry;
  Tensors tensors(g, kernels.lanes);
  for (int direction = 0; direction < 3; ++direction) {
    std::vector<float> workspace;
    const auto run = our_run(kernels, g, direction, tensors, workspace);
    Race race;
    run();
    if (check) {
      const auto& found = direction == 0 ? tensors.y : direction == 1 ? tensors.dx : tensors.dw;
      race.error = relative_error(exact(g, direction, tensors, kernels.lanes), found);
    }
    race.direct = race.onednn = race.ours = 1e30;
    for (int i = 0; i < runs; ++i) {
      race.ours = std::min(race.ours, milliseconds_of(run, 0.1));
      race.direct = std::min(race.direct,
                             onednn_milliseconds(onednn, g, direction, dnnl::algorithm::convolution_direct));
      race.onednn = std::min(
          race.onednn, onednn_milliseconds(onednn, g, direction, dnnl::algorithm::convolution_winograd));
    }
    const double flops =
        18.0 * static_cast<double>(g.images * g.inputs * g.outputs * g.y_height * g.y_width) / 1e6;
    const double products = 2.0 * 36 * static_cast<double>(g.tiles() * g.inputs * g.outputs) / 1e6;
    fmt::print("{:8} {:8} {:8.2f} {:8.2f} {:8.2f} {:8.0f} {:6.2f} {:9.1e} {:7.1f}\n", shape.name,
               kDirections[direction], race.direct, race.onednn, race.ours, flops / race.ours,
               products / race.ours / peak_rate, race.error,
               static_cast<double>(workspace.size()) * 4 / 1048576);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace trainer::cpu

/// [NAME of a shape, IMAGESxINPUTSxOUTPUTSxPIXELS, or all] [RUNS] [check]
int main(int count, char** arguments) {
  using namespace trainer::cpu;
  const std::string name = count > 1 ? arguments[1] : "all";
  const OneDnn onednn;
  const winograd::Kernels& kernels = winograd::best_kernels(winograd::Storage::f32);
  const double rate = peak();
  fmt::print("{} kernels, {} threads, {:.0f} GFLOP/s at most\n", kernels.name, omp_get_max_threads(), rate);
  fmt::print("{:8} {:8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>9} {:>7}\n", "shape", "pass", "direct", "onednn w",
             "ours", "GFLOP/s", "peak", "error", "MiB");
  int64_t images = 0, inputs = 0, outputs = 0, pixels = 0;
  std::vector<Named> shapes = all_shapes();
  if (std::sscanf(name.c_str(), "%ldx%ldx%ldx%ld", &images, &inputs, &outputs, &pixels) == 4)
    shapes = {square(name.c_str(), images, inputs, outputs, pixels)};
  const int runs = count > 2 ? std::atoi(arguments[2]) : 3;
  for (const Named& shape : shapes) {
    if (name == "all" || name == shape.name) run_shape(onednn, kernels, shape, rate, count > 3, runs);
  }
}
