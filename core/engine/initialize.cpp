// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/rng.h"
#include "core/engine/executable.h"

namespace trainer {
namespace {

/// Values are drawn in blocks of four, the number that one Philox counter gives.
constexpr size_t kBlock = 4;
/// This many values take a millisecond, a thread's start a twentieth of that.
constexpr size_t kValuesWorthAThread = size_t{1} << 16;
/// More threads would wait for memory.
constexpr size_t kMostThreads = 16;
/// Standard deviations.
constexpr double kTruncatedAt = 2;

/// Values of one tensor: those from `first`, a multiple of kBlock, on.
struct Drawing {
  size_t first, count;
  uint64_t key;
  size_t threads;
};

/// Calls body(begin, end) on parts of [0, count) that begin at multiples of a block, on several threads if
/// that pays. If the system allows no further thread, this only takes longer.
template <class Body>
void in_parallel(size_t count, size_t threads, const Body& body) {
  const size_t parts =
      std::clamp<size_t>(count / kValuesWorthAThread, 1, std::clamp<size_t>(threads, 1, kMostThreads));
  const size_t length = (count / parts / kBlock + 1) * kBlock;
  std::vector<std::jthread> running;
  running.reserve(parts);
  size_t begin = 0;
  try {
    for (; begin + length < count; begin += length) {
      running.emplace_back([&body, begin, length] { body(begin, begin + length); });
    }
  } catch (const std::system_error&) {  // no further thread is allowed
  }
  body(begin, count);
}

/// Element i comes from word i % 4 of counter i / 4. `block` turns the words that its argument returns for a
/// try's number into four values.
template <class Block>
std::vector<float> drawn_values(const Drawing& drawing, const Block& block) {
  std::vector<float> values(drawing.count);
  in_parallel(drawing.count, drawing.threads, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i += kBlock) {
      const size_t counter = (drawing.first + i) / kBlock;
      const std::array<float, kBlock> four = block([key = drawing.key, counter](uint32_t attempt) {
        return philox(key,
                      {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), attempt, 0}});
      });
      std::copy_n(four.begin(), std::min(kBlock, end - i), values.begin() + static_cast<ptrdiff_t>(i));
    }
  });
  return values;
}

std::vector<float> uniform_values(const Drawing& drawing, double low, double high) {
  return drawn_values(drawing, [=](const auto& words_of) {
    const Words words = words_of(0);
    std::array<float, kBlock> four;
    for (size_t i = 0; i < kBlock; ++i)
      four[i] = static_cast<float>(low + (high - low) * uniform(words.v[i]));
    return four;
  });
}

/// Box and Muller's transform: two uniforms make two normals, of mean 0 and deviation 1.
std::array<double, kBlock> normals(const Words& words) {
  std::array<double, kBlock> four;
  for (size_t i = 0; i < kBlock; i += 2) {
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
    for (size_t i = 0; i < kBlock; ++i) {
      for (uint32_t attempt = 1; std::abs(found[i]) > most; ++attempt)
        found[i] = normals(words_of(attempt))[i];
      four[i] = static_cast<float>(initial.a + initial.b * found[i]);
    }
    return four;
  });
}

/// Whether this rank holds a part of the tensor and not the whole.
bool is_part(const Executable& executable, TensorId id) {
  return executable.plan().tensors[static_cast<size_t>(id)].part && executable.whole(id).empty();
}

/// The values of one tensor that this rank draws: of one in parts its own, unless it holds the whole.
Drawing drawing_of(const Executable& executable, TensorId id, uint64_t seed, DrawingThreads threads) {
  const Tensor& tensor = executable.plan().tensors[static_cast<size_t>(id)];
  Drawing drawing{.first = 0,
                  .count = static_cast<size_t>(numel(whole_shape(tensor))),
                  .key = random_key(seed, tensor.name),
                  .threads = static_cast<size_t>(std::max<int64_t>(1, threads.count))};
  if (!is_part(executable, id)) return drawing;
  const auto part = static_cast<size_t>(numel(tensor.spec.shape));
  drawing.first =
      std::min(drawing.count, part * static_cast<size_t>(tensor.part->index(executable.plan().rank)));
  drawing.count = std::min(part, drawing.count - drawing.first);
  return drawing;
}

/// What a part has beyond the drawn values is zero.
template <class T>
void write(Executable& executable, TensorId id, std::vector<T> values) {
  if (is_part(executable, id))
    values.resize(static_cast<size_t>(numel(executable.plan().tensors[static_cast<size_t>(id)].spec.shape)),
                  T(0));
  executable.write(id, values);
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
      if (filling == 0 || !is_part(executable, id)) return executable.fill(id, filling);
      return write(executable, id, std::vector<double>(drawing.count, filling));
    case Initial::Kind::uniform:
      return write(executable, id, uniform_values(drawing, initial.a, initial.b));
    case Initial::Kind::normal:
      return write(executable, id, normal_values(drawing, initial, std::numeric_limits<double>::infinity()));
    case Initial::Kind::truncated_normal:
      return write(executable, id, normal_values(drawing, initial, kTruncatedAt));
    case Initial::Kind::table:
      const auto begin = initial.table.begin() + static_cast<ptrdiff_t>(drawing.first);
      return write(executable, id, std::vector<double>(begin, begin + static_cast<ptrdiff_t>(drawing.count)));
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
