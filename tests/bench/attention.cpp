// SPDX-License-Identifier: Apache-2.0
// Times attention on the CPU, forward and backward. scripts/bench/peer_attention.py times PyTorch's on the
// same shapes.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "core/graph/ops/attention.h"
#include "cpu/attention/use.h"

namespace trainer::cpu::attention {
namespace {

/// Seconds: with one thread processor time, which other processes do not lengthen.
double now() {
  if (omp_get_max_threads() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Memory at a cache line, filled with small numbers.
class Memory {
 public:
  explicit Memory(int64_t floats) : floats_(static_cast<size_t>(floats + kLine)) {
    for (size_t i = 0; i < floats_.size(); ++i)
      floats_[i] = static_cast<float>(i * 2654435761U % 2048) / 1024 - 1;
  }
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(floats_.data());
    return floats_.data() + (64 - address % 64) % 64 / sizeof(float);
  }

 private:
  static constexpr int64_t kLine = 16;
  std::vector<float> floats_;
};

/// The shortest of several runs, in milliseconds.
template <class Run>
double shortest(const Run& run, double seconds) {
  double best = 1e30, total = 0;
  for (int i = 0; i < 3 || (total < seconds && i < 1000); ++i) {
    const double before = now();
    run();
    const double spent = now() - before;
    best = std::min(best, spent * 1e3), total += spent;
  }
  return best;
}

struct Sizes {
  int64_t samples, heads, kv_heads, size, queries, keys;
};

void time_attention(const Sizes& x, bool causal, double seconds) {
  const AttentionSettings settings{.heads = x.heads, .kv_heads = x.kv_heads, .causal = causal};
  const Shape q_shape{x.samples, x.queries, x.heads * x.size},
      k_shape{x.samples, x.keys, x.kv_heads * x.size};
  const Use use{.settings = settings,
                .sizes = AttentionSizes(settings, q_shape, k_shape),
                .dtype = DType::f32,
                .kernels = &best_kernels(),
                .threads = omp_get_max_threads()};
  Memory q(numel(q_shape)), k(numel(k_shape)), v(numel(k_shape)), y(numel(q_shape)), dy(numel(q_shape)),
      log_sum(x.samples * x.queries * x.heads), dq(numel(q_shape)), dk(numel(k_shape)), dv(numel(k_shape));
  const auto first = static_cast<int32_t>(x.keys - x.queries);
  const Given given{.q = q.data(), .k = k.data(), .v = v.data(), .first = &first};
  const auto forward = make_forward(use);
  const auto backward = make_backward(use);
  Memory room(std::max(forward->workspace_floats(), backward->workspace_floats()));
  const double there = shortest([&] { forward->run(given, y.data(), log_sum.data(), room.data()); }, seconds);
  const double back = shortest(
      [&] {
        backward->run({.forward = given, .dy = dy.data(), .y = y.data(), .log_sum = log_sum.data()},
                      {.dq = dq.data(), .dk = dk.data(), .dv = dv.data()}, room.data());
      },
      seconds);
  std::vector<TensorSpec> inputs(attention_input::kInputCount);
  inputs[0].shape = q_shape, inputs[1].shape = inputs[2].shape = k_shape;
  const double flops = Attention(settings).flops(inputs, {}) / 1e6;
  fmt::print(
      "{:3} x {:2}/{:2} x {:3}, {:5} of {:5}{}  {:9.3f} ms {:6.1f} GFLOP/s  {:9.3f} ms {:6.1f} GFLOP/s\n",
      x.samples, x.heads, x.kv_heads, x.size, x.queries, x.keys, causal ? " causal" : "       ", there,
      flops / there, back, 2.5 * flops / back);
  std::fflush(stdout);
}

}  // namespace
}  // namespace trainer::cpu::attention

/// [SAMPLESxHEADSxKV_HEADSxSIZExQUERIESxKEYS or all] [SECONDS for each] [full: no causal mask]
int main(int count, char** arguments) {
  using namespace trainer::cpu::attention;
  std::vector<Sizes> shapes = {{16, 6, 6, 64, 256, 256},  {8, 6, 6, 64, 512, 512},  {2, 6, 6, 64, 2048, 2048},
                               {1, 6, 6, 64, 8192, 8192}, {1, 12, 12, 64, 1, 1024}, {1, 12, 4, 64, 1, 8192}};
  Sizes one{};
  if (count > 1 && std::sscanf(arguments[1], "%ldx%ldx%ldx%ldx%ldx%ld", &one.samples, &one.heads,
                               &one.kv_heads, &one.size, &one.queries, &one.keys) == 6)
    shapes = {one};
  const double seconds = count > 2 ? std::atof(arguments[2]) : 1;
  fmt::print("{} kernels, {} threads\n", best_kernels().name, omp_get_max_threads());
  for (const Sizes& shape : shapes) time_attention(shape, count <= 3, seconds);
}
