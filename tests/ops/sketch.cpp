// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/sketch.h"

#include <cmath>
#include <numbers>

#include "core/graph/operation.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/reshape.h"
#include "core/passes/pass.h"

namespace trainer {
namespace {

float normal(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log(1.0 - random.next_uniform()));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.next_uniform()));
}

std::vector<float> shuffled_grid(RandomStream& random, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const double step = 4.0 / static_cast<double>(count);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(step * (static_cast<double>(i) + 0.5) - 1.7);
  for (size_t i = values.size(); i-- > 1;) {
    std::swap(values[i], values[static_cast<size_t>(random.next_below(static_cast<int64_t>(i) + 1))]);
  }
  return values;
}

/// Rows of a few classes: with many, each one's gradient would drown in the rounding of the loss.
Shape short_rows(int64_t count) {
  for (int64_t classes = 16; classes > 1; --classes) {
    if (count % classes == 0) return {count / classes, classes};
  }
  return {1, count};
}

}  // namespace

Sketch::Sketch(uint64_t seed)
    : program{.tensors = {}, .entries = {Entry(entry_name::kTrainStep)}},
      random_(random_key(seed, "sketch")),
      build_(program, program.entries[0]) {}

std::vector<float> Sketch::draw(int64_t count, Values kind) {
  if (kind == Values::distinct) return shuffled_grid(random_, count);
  std::vector<float> drawn(static_cast<size_t>(count));
  for (float& value : drawn) {
    value = kind == Values::positive ? 0.5f + random_.next_uniform() : normal(random_);
    if (kind == Values::off_zero) value += std::copysign(0.1f, value);
  }
  return drawn;
}

TensorId Sketch::parameter(const std::string& name, const Shape& shape, Values kind) {
  values[name] = draw(numel(shape), kind);
  return program.persistent(name, {shape, DType::f32}, Role::parameter, {});
}

TensorId Sketch::input(const std::string& name, const Shape& shape, Values kind) {
  values[name] = draw(numel(shape), kind);
  return program.input(name, {shape, DType::f32});
}

TensorId Sketch::integers(const std::string& name, int64_t count, int64_t below) {
  return integers(name, Shape{count}, below);
}

TensorId Sketch::integers(const std::string& name, const Shape& shape, int64_t below) {
  std::vector<float>& drawn = values[name];
  drawn.resize(static_cast<size_t>(numel(shape)));
  for (float& value : drawn) value = static_cast<float>(random_.next_below(below));
  return program.input(name, {shape, DType::i32});
}

TensorId Sketch::pixels(const std::string& name, const Shape& shape) {
  const TensorId id = integers(name, shape, 256);
  program.tensors[static_cast<size_t>(id)].spec.dtype = DType::u8;
  return id;
}

void Sketch::output(const std::string& name, TensorId x) {
  program.entries[0].outputs.push_back({name, x});
}

void Sketch::loss(TensorId x) {
  const Shape shape = build_.shape(x);
  const Shape rows = short_rows(numel(shape));
  const TensorId scaled = build_.emit<Binary>({x, input("loss.scale", shape)}, Binary::Kind::mul);
  const TensorId logits = build_.emit<Reshape>({scaled}, rows);
  const TensorId labels = integers("loss.labels", rows[0], rows[1]);
  const TensorId weights = input("loss.weights", {rows[0]}, Values::positive);
  output("loss", build_.emit<CrossEntropy>({logits, labels, weights}, 0.1));
}

}  // namespace trainer
