// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/positions.h"

#include <cmath>

#include "core/graph/ops/rotary.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Tokens {
  Shape x;
  int64_t positions;
  bool first, documents;
};

const std::vector<Tokens> kTokens = {{{1, 1, 2}, 1, false, false},
                                     {{3, 31, 33}, 31, false, false},
                                     {{2, 33, 31}, 64, true, false},
                                     {{3, 7, 16}, 12, false, true},
                                     {{31, 5, 8}, 9, true, true}};

/// A first position, and documents that begin at every third token.
std::vector<TensorId> with_positions(Sketch& sketch, const Tokens& t, TensorId x, TensorId table) {
  std::vector<TensorId> inputs{x, table, kNone, kNone};
  if (t.first) {
    inputs[position_input::kFirstPosition] = sketch.integers("first", 1, 2);
    sketch.values["first"] = {static_cast<float>(t.positions - t.x[1])};
  }
  if (t.documents) {
    inputs[position_input::kStart] = sketch.integers("start", {t.x[0], t.x[1]}, 2);
    std::vector<float>& start = sketch.values["start"];
    for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i % t.x[1] / 3 * 3);
  }
  return inputs;
}

void set_table(Sketch& sketch, const std::vector<double>& table) {
  sketch.values["table"] = {table.begin(), table.end()};
}

}  // namespace

TEST_CASE("positions add the rows of a table and sum their gradients") {
  for (const Tokens& t : kTokens) {
    check_program("positions " + to_string(t.x), [&](Sketch& sketch) {
      const TensorId x = sketch.parameter("x", t.x), table = sketch.parameter("table", {t.positions, t.x[2]});
      const TensorId y = sketch.build().emit<AddPositions>(with_positions(sketch, t, x, table));
      sketch.output("y", y);
      sketch.loss(y);
    });
  }
}

TEST_CASE("rotary position embedding turns the features of heads, and back in its gradient") {
  for (const Tokens& t : kTokens) {
    for (const bool interleaved : {false, true}) {
      for (const int64_t kept_heads : {0, 1}) {
        for (const int64_t kept_features : {0, 3}) {
          const RotarySettings settings{.heads = 3 - kept_heads,
                                        .size = t.x[2] / 2 * 2 + kept_features,
                                        .features = t.x[2] / 2 * 2,
                                        .interleaved = interleaved};
          check_program(
              "rotary " + to_string(t.x),
              [&](Sketch& sketch) {
                const TensorId x = sketch.parameter("x", {t.x[0], t.x[1], 3 * settings.size});
                const TensorId table = sketch.input("table", {t.positions, settings.features});
                set_table(sketch, rotary_table(10000, settings.features, t.positions));
                const TensorId y = sketch.build().emit<Rotary>(with_positions(sketch, t, x, table), settings);
                sketch.output("y", y);
                sketch.loss(y);
              },
              1);
        }
      }
    }
  }
}

TEST_CASE("angles are exact at far positions too") {
  const std::vector<double> table = rotary_table(10000, 64, 8192);
  const long double frequency = std::pow(10000.0L, -2.0L * 3 / 64);
  CHECK(std::abs(table[8191 * 64] - static_cast<double>(std::cos(8191.0L))) < 1e-9);
  CHECK(std::abs(table[8191 * 64 + 35] - static_cast<double>(std::sin(8191.0L * frequency))) < 1e-9);
}

TEST_CASE("rotary position embedding computes what Llama and GPT-J compute, at far positions too") {
  const Fixture fixture("sequences");
  for (const std::string name :
       {"rotary_half.0", "rotary_half.1", "rotary_interleaved.0", "rotary_interleaved.1"}) {
    const Shape& shape = fixture.shape(name + "/x");
    const std::vector<float> geometry = fixture.values(name + "/geometry");
    const auto heads = static_cast<int64_t>(geometry[0]), size = static_cast<int64_t>(geometry[1]),
               first = static_cast<int64_t>(geometry[2]), positions = first + shape[1];
    Program program{.tensors = {}, .entries = {Entry("compute")}};
    Builder build(program, program.entries[0]);
    const Initial values{.kind = Initial::Kind::table, .table = rotary_table(10000, size, positions)};
    const TensorId table =
        program.persistent("table", {{positions, size}, DType::f32}, Role::constant, values);
    const TensorId place = program.input("first", {{1}, DType::i32});
    RotarySettings settings{
        .heads = heads, .size = size, .features = size, .interleaved = name.find("inter") != name.npos};
    for (const auto& [from, to] : {std::pair{"x", "y"}, std::pair{"dy", "dx"}}) {
      const TensorId x = program.input(from, {shape, DType::f32});
      program.entries[0].outputs.push_back({to, build.emit<Rotary>({x, table, place, kNone}, settings)});
      settings.inverse = true;
    }
    for (const bool reference : {true, false}) {
      const Backend backend = reference ? make_reference_backend() : make_cpu_backend(2);
      Session session(program, backend);
      session.set("first", {static_cast<float>(first)});
      for (const char* input : {"x", "dy"}) session.set(input, fixture.values(name + "/" + input));
      session.run("compute");
      for (const char* output : {"y", "dx"}) {
        INFO(name << " " << output << " on " << backend.planner->name());
        CHECK(relative_error(session.output("compute", output), fixture.doubles(name + "/" + output)) < 5e-7);
      }
    }
  }
}

TEST_CASE("positions beyond the table are refused") {
  Sketch sketch(1);
  const TensorId x = sketch.input("x", {2, 5, 4}), table = sketch.input("table", {4, 4});
  CHECK_THROWS_WITH(sketch.build().emit<AddPositions>({x, table, kNone, kNone}),
                    ContainsSubstring("sequences of 5 tokens are longer than the 4 positions there are"));
  CHECK_THROWS_WITH(
      sketch.build().emit<Rotary>({x, table, kNone, kNone}, RotarySettings{.size = 4, .features = 4}),
      ContainsSubstring("sequences of 5 tokens are longer than the 4 positions there are"));
}
