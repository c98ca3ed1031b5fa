// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/positions.h"
#include "core/graph/ops/rearrange.h"
#include "core/graph/ops/rotary.h"
#include "core/graph/ops/scale_features.h"
#include "core/graph/ops/tokens.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// From one token to several blocks of sorted ones, and more rows of a table than there are tokens.
void add_embeddings(std::vector<KernelCase>& cases) {
  struct Sizes {
    int64_t samples, tokens, vocabulary, features;
  };
  for (const Sizes& e : {Sizes{1, 1, 2, 2}, Sizes{2, 31, 3, 33}, Sizes{3, 257, 40, 8}, Sizes{1, 1100, 1, 9},
                         Sizes{2, 16, 1031, 264}}) {
    cases.push_back(differentiable(
        fmt::format("embedding {}x{} of {}x{}", e.samples, e.tokens, e.vocabulary, e.features),
        [=](Sketch& sketch) {
          const TensorId ids = sketch.integers("ids", {e.samples, e.tokens}, e.vocabulary);
          return sketch.build().emit<Embedding>({ids, sketch.parameter("table", {e.vocabulary, e.features})});
        }));
  }
}

/// y = f(x) if f computes in `type` beside f32 parameters, which a narrow program would not leave as they
/// are.
KernelCase in_type(const std::string& name, DType type, const Shape& shape,
                   const std::function<TensorId(Sketch&, TensorId)>& f) {
  KernelCase one = differentiable(fmt::format("{} {}", name, to_string(type)), [=](Sketch& sketch) {
    const TensorId x = sketch.parameter("x", shape);
    if (type == DType::f32) return f(sketch, x);
    Builder& build = sketch.build();
    return build.emit<Cast>({f(sketch, build.emit<Cast>({x}, type))}, DType::f32);
  });
  one.narrow = false;
  if (type != DType::f32) one.tolerances = narrow_tolerances(type);
  return one;
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

/// First position and starts of documents, one at every fifth token.
std::vector<TensorId> positions_of(Sketch& sketch, const Shape& x, int64_t first, bool documents) {
  std::vector<TensorId> inputs(2, kNone);
  if (first > 0) {
    inputs[0] = sketch.integers("first", 1, 2);
    sketch.values["first"] = {static_cast<float>(first)};
  }
  if (documents) {
    inputs[1] = sketch.integers("start", {x[0], x[1]}, 2);
    std::vector<float>& start = sketch.values["start"];
    for (size_t i = 0; i < start.size(); ++i)
      start[i] = static_cast<float>(i % static_cast<size_t>(x[1]) / 5 * 5);
  }
  return inputs;
}

void add_position_tables(std::vector<KernelCase>& cases) {
  for (const Shape& x : {Shape{1, 1, 3}, Shape{3, 31, 33}, Shape{2, 260, 16}}) {
    for (const bool documents : {false, true}) {
      for (const DType type : kTypes) {
        cases.push_back(in_type("add_positions " + to_string(x), type, x, [=](Sketch& sketch, TensorId in) {
          const std::vector<TensorId> more = positions_of(sketch, x, documents ? 2 : 0, documents);
          const TensorId table = sketch.parameter("table", {x[1] + 3, x[2]});
          return sketch.build().emit<AddPositions>({in, table, more[0], more[1]});
        }));
      }
    }
  }
}

void add_rotary(std::vector<KernelCase>& cases) {
  for (const RotarySettings& settings : {RotarySettings{.heads = 3, .size = 64, .features = 64},
                                         RotarySettings{.heads = 2, .size = 13, .features = 10},
                                         RotarySettings{.heads = 1, .size = 32, .features = 16},
                                         RotarySettings{.heads = 3, .size = 2, .features = 2}}) {
    for (const bool interleaved : {false, true}) {
      for (const DType type : kTypes) {
        RotarySettings one = settings;
        one.interleaved = interleaved;
        const Shape x{2, 11, 3 * settings.size};
        cases.push_back(
            in_type("rotary " + attributes_text(Rotary(one)), type, x, [=](Sketch& sketch, TensorId in) {
              const std::vector<TensorId> more = positions_of(sketch, x, interleaved ? 3 : 0, interleaved);
              const TensorId table = sketch.input("table", {20, one.features});
              const std::vector<double> values = rotary_table(10000, one.features, 20);
              sketch.values["table"] = {values.begin(), values.end()};
              return sketch.build().emit<Rotary>({in, table, more[0], more[1]}, one);
            }));
      }
    }
  }
}

template <class Op, class... Arguments>
KernelCase of_one(const Shape& shape, Arguments... arguments) {
  return differentiable(fmt::format("{} {}", Op(arguments...).name(), to_string(shape)), [=](Sketch& sketch) {
    return sketch.build().emit<Op>({sketch.parameter("x", shape)}, arguments...);
  });
}

void add_rearranged(std::vector<KernelCase>& cases) {
  constexpr int64_t kOne = 1, kTwo = 2, kThree = 3;
  for (const Shape& x : {Shape{2, 3, 5}, Shape{3, 31, 33}, Shape{1, 65, 40}}) {
    cases.push_back(of_one<Transpose>(x, kOne, kTwo));
    cases.push_back(of_one<Pad>(x, kOne, kOne, kThree));
    cases.push_back(of_one<Pad>(x, kTwo, kThree, kOne - 1));
    cases.push_back(of_one<Slice>(x, kOne, kOne, kTwo));
  }
  for (const Shape& images : {Shape{5, 3, 7, 9}, Shape{2, 33, 1, 5}}) {
    cases.push_back(of_one<Pad>(images, kOne, kOne - 1, kOne));
    cases.push_back(of_one<Pad>(images, kOne, kTwo, kThree));
    cases.push_back(of_one<Pad>(images, kTwo, kTwo, kThree));
  }
  cases.push_back(of_one<Transpose>({2, 5, 7, 3, 2}, kOne, kThree));
  cases.push_back(of_one<Transpose>({2, 31, 4, 9}, kOne, kTwo));
  for (const Shape& x : {Shape{2, 16, 5, 7}, Shape{1, 33, 8, 1}, Shape{3, 1, 2, 3}}) {
    cases.push_back(of_one<ImagesToTokens>(x));
    cases.push_back(of_one<TokensToImages>({x[0], x[2] * x[3], x[1]}, Size2d{x[2], x[3]}));
  }
  for (const int64_t samples : {1, 300}) cases.push_back(of_one<RepeatSamples>({1, 1, 33}, samples));
  for (const Shape& x : {Shape{1, 2}, Shape{7, 31, 33}, Shape{2, 400, 16}}) {
    for (const DType type : kTypes) {
      cases.push_back(in_type("scale_features " + to_string(x), type, x, [=](Sketch& sketch, TensorId in) {
        return sketch.build().emit<ScaleFeatures>({in, sketch.parameter("s", {x.back()})});
      }));
    }
  }
}

}  // namespace

void add_sequence_cases(std::vector<KernelCase>& cases) {
  add_embeddings(cases);
  add_position_tables(cases);
  add_rotary(cases);
  add_rearranged(cases);
}

}  // namespace trainer
