// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/rng.h"
#include "core/engine/executable.h"

namespace trainer {
namespace {

/// Values are drawn in blocks of four, the number that one Philox counter gives.
constexpr int64_t kBlock = 4;
/// This many values take a millisecond, a thread's start a twentieth of that.
constexpr int64_t kValuesWorthAThread = int64_t{1} << 16;
/// More threads would wait for memory.
constexpr size_t kMostThreads = 16;
/// Standard deviations.
constexpr double kTruncatedAt = 2;

/// Values of one tensor: those that this rank has of it, and their places among the values that it holds.
struct Drawing {
  std::vector<ElementRun> runs;  ///< in pieces that a thread draws at once
  int64_t held;                  ///< values that the rank holds; those outside the runs are zero
  uint64_t key;
  size_t threads;
};

/// Calls body(begin, end) on parts of the runs, on several threads if that pays. If the system allows no
/// further thread, this only takes longer.
template <class Body>
void in_parallel(const Drawing& drawing, const Body& body) {
  const size_t count = drawing.runs.size();
  const size_t parts = std::clamp<size_t>(static_cast<size_t>(drawing.held / kValuesWorthAThread), 1,
                                          std::clamp<size_t>(drawing.threads, 1, kMostThreads));
  const size_t length = count / parts + 1;
  std::vector<std::jthread> running;
  running.reserve(parts);
  size_t begin = 0;
  try {
    for (; begin + length < count; begin += length)
      running.emplace_back([&body, begin, length] { body(begin, begin + length); });
  } catch (const std::system_error&) {  // no further thread is allowed
  }
  body(begin, count);
}

/// Element i of the whole comes from word i % 4 of counter i / 4. `block` turns the words that its argument
/// returns for a try's number into four values.
template <class Block>
std::vector<float> drawn_values(const Drawing& drawing, const Block& block) {
  std::vector<float> values(static_cast<size_t>(drawing.held), 0.0f);
  in_parallel(drawing, [&](size_t begin, size_t end) {
    for (const ElementRun& run : std::span(drawing.runs).subspan(begin, end - begin)) {
      float* const to = values.data() + run.in_part;
      for (int64_t done = 0; done < run.count;) {
        const int64_t counter = (run.in_whole + done) / kBlock, within = (run.in_whole + done) % kBlock;
        const std::array<float, kBlock> four = block([key = drawing.key, counter](uint32_t attempt) {
          return philox(key,
                        {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), attempt, 0}});
        });
        const int64_t taken = std::min(kBlock - within, run.count - done);
        std::copy_n(four.begin() + within, taken, to + done);
        done += taken;
      }
    }
  });
  return values;
}

std::vector<float> uniform_values(const Drawing& drawing, double low, double high) {
  return drawn_values(drawing, [=](const auto& words_of) {
    const Words words = words_of(0);
    std::array<float, kBlock> four;
    for (size_t i = 0; i < size_t{kBlock}; ++i)
      four[i] = static_cast<float>(low + (high - low) * uniform(words.v[i]));
    return four;
  });
}

/// Box and Muller's transform: two uniforms make two normals, of mean 0 and deviation 1.
std::array<double, kBlock> normals(const Words& words) {
  std::array<double, kBlock> four;
  for (size_t i = 0; i < size_t{kBlock}; i += 2) {
    const double radius = std::sqrt(-2 * std::log(1.0 - uniform(words.v[i])));
    const double angle = 2 * std::numbers::pi * uniform(words.v[i + 1]);
    four[i] = radius * std::cos(angle);
    four[i + 1] = radius * std::sin(angle);
  }
  return four;
}

/// A value further than `most` standard deviations from the mean is drawn again.
std::vector<float> normal_values(const Drawing& drawing, const Initial& initial, double most) {
  return drawn_values(drawing, [&initial, most](const auto& words_of) {
    std::array<double, kBlock> found = normals(words_of(0));
    std::array<float, kBlock> four;
    for (size_t i = 0; i < size_t{kBlock}; ++i) {
      for (uint32_t attempt = 1; std::abs(found[i]) > most; ++attempt)
        found[i] = normals(words_of(attempt))[i];
      four[i] = static_cast<float>(initial.a + initial.b * found[i]);
    }
    return four;
  });
}

/// Runs of at most as many values as are worth a thread.
std::vector<ElementRun> in_pieces(const std::vector<ElementRun>& runs) {
  std::vector<ElementRun> pieces;
  for (const ElementRun& run : runs) {
    for (int64_t done = 0; done < run.count; done += kValuesWorthAThread)
      pieces.push_back({.in_part = run.in_part + done,
                        .in_whole = run.in_whole + done,
                        .count = std::min(kValuesWorthAThread, run.count - done)});
  }
  return pieces;
}

/// The values of one tensor that this rank draws: of one in parts its own.
Drawing drawing_of(const Executable& executable, TensorId id, uint64_t seed, DrawingThreads threads) {
  const Plan& plan = executable.plan();
  const Tensor& tensor = plan.tensors[static_cast<size_t>(id)];
  const int64_t held = numel(tensor.spec.shape);
  const std::vector<ElementRun> whole = {{.in_part = 0, .in_whole = 0, .count = held}};
  return {.runs = in_pieces(tensor.part ? tensor.part->runs(tensor.part->index(plan.rank)) : whole),
          .held = held,
          .key = random_key(seed, tensor.name),
          .threads = static_cast<size_t>(std::max<int64_t>(1, threads.count))};
}

/// What is held of a table, which value(i) gives for element i of the whole.
template <class Value>
std::vector<double> held_values(const Drawing& drawing, const Value& value) {
  std::vector<double> values(static_cast<size_t>(drawing.held), 0.0);
  for (const ElementRun& run : drawing.runs) {
    for (int64_t i = 0; i < run.count; ++i)
      values[static_cast<size_t>(run.in_part + i)] = value(run.in_whole + i);
  }
  return values;
}

}  // namespace

void initialize(Executable& executable, TensorId id, uint64_t seed, DrawingThreads threads) {
  const Tensor& tensor = executable.plan().tensors[static_cast<size_t>(id)];
  const Drawing drawing = drawing_of(executable, id, seed, threads);
  const Initial& initial = tensor.initial;
  // Every backend starts with the same numbers, however wide it stores them.
  const double filling = is_floating(tensor.spec.dtype) ? static_cast<float>(initial.a) : initial.a;
  switch (initial.kind) {
    case Initial::Kind::fill:
      if (filling == 0 || !tensor.part) return executable.fill(id, filling);
      return executable.write(id, held_values(drawing, [=](int64_t) { return filling; }));
    case Initial::Kind::uniform:
      return executable.write(id, uniform_values(drawing, initial.a, initial.b));
    case Initial::Kind::normal:
      return executable.write(id, normal_values(drawing, initial, std::numeric_limits<double>::infinity()));
    case Initial::Kind::truncated_normal:
      return executable.write(id, normal_values(drawing, initial, kTruncatedAt));
    case Initial::Kind::table:
      return executable.write(
          id, held_values(drawing, [&](int64_t i) { return initial.table[static_cast<size_t>(i)]; }));
  }
}

void initialize(Executable& executable, uint64_t seed, DrawingThreads threads) {
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const bool is_here = executable.address(id) != nullptr && !executable.plan().placements[i].is_transient;
    if (is_persistent(tensors[i].role) && is_here) initialize(executable, id, seed, threads);
  }
  executable.prepare([&](TensorId id) { initialize(executable, id, seed, threads); });
}

}  // namespace trainer
