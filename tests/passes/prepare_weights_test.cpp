// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "tests/passes/draft.h"

using namespace trainer;

namespace {

TensorId product(Draft& draft, TensorId a, TensorId b) {
  return draft.build.emit<Binary>({a, b}, Binary::Kind::mul);
}

Calls prepared(Draft& draft) {
  return draft.calls({}, entry_name::kPrepare);
}

}  // namespace

TEST_CASE("what reads only weights, statistics and constants is computed by `prepare`, and persists") {
  Draft draft;
  const TensorId w = draft.parameter("w", {4, 4}), x = draft.input("x", {4, 4});
  const TensorId s = draft.program.persistent("s", {{4, 4}, DType::f32}, Role::state, {}),
                 c = draft.program.persistent("c", {{4, 4}, DType::f32}, Role::constant, {});
  const TensorId scaled = product(draft, product(draft, w, s), c);
  draft.output("y", product(draft, x, scaled));
  draft.run({prepare_weights()});
  CHECK(draft.calls() == Calls{"mul(x, w.prepared)"});
  CHECK(prepared(draft) == Calls{"mul(w, s)", "mul(mul, c)", "assign(w.prepared, mul)"});
  CHECK(draft.program.tensor(draft.program.find("w.prepared")).role == Role::derived);
}

TEST_CASE("views of weights stay, for they cost nothing; `prepare` makes its own") {
  Draft draft;
  const TensorId w = draft.parameter("w", {2, 8}), x = draft.input("x", {4, 4}), z = draft.input("z", {2, 8});
  const TensorId turned = draft.build.emit<Reshape>({w}, Shape{4, 4});
  const TensorId twice = product(draft, turned, turned);
  draft.output("y", product(draft, x, turned));
  draft.output("z", product(draft, z, draft.build.emit<Reshape>({twice}, Shape{2, 8})));
  draft.run({prepare_weights(), dead_code()});
  CHECK(draft.calls() == Calls{"reshape(w)", "mul(x, reshape)", "reshape(w.prepared)", "mul(z, reshape)"});
  CHECK(prepared(draft) == Calls{"reshape(w)", "mul(reshape, reshape)", "assign(w.prepared, mul)"});
}

TEST_CASE("entries share what they both need; results of one weight have names of their own") {
  Draft draft;
  const TensorId w = draft.parameter("w", {4, 4}), x = draft.input("x", {4, 4});
  const auto add_reader = [&](Builder& build, const std::string& name, DType dtype) {
    const TensorId low = build.emit<Cast>({w}, dtype);
    const TensorId y = build.emit<Binary>({build.emit<Cast>({x}, dtype), low}, Binary::Kind::mul);
    build.entry().outputs.push_back({name, y});
  };
  add_reader(draft.build, "a", DType::bf16);
  draft.program.entries.emplace_back("other");
  Builder other(draft.program, draft.program.entries.back());
  add_reader(other, "b", DType::bf16);
  add_reader(other, "c", DType::f16);
  draft.run({prepare_weights()});
  CHECK(prepared(draft) == Calls{"bf16 cast(w) {to=bf16}", "assign(w.prepared, cast)", "f16 cast(w) {to=f16}",
                                 "assign(w.prepared2, cast)"});
  CHECK(draft.calls("mul").front() == "bf16 mul(cast, w.prepared)");
  CHECK(draft.calls("mul", "other") == Calls{"bf16 mul(cast, w.prepared)", "f16 mul(cast, w.prepared2)"});
}

TEST_CASE("what an entry changes is read in every run") {
  Draft draft;
  const TensorId s = draft.program.persistent("s", {{4, 4}, DType::f32}, Role::state, {}),
                 x = draft.input("x", {4, 4});
  const TensorId squared = product(draft, s, s);
  draft.output("y", squared);
  draft.build.assign(s, product(draft, x, squared));
  draft.run({prepare_weights()});
  CHECK(prepared(draft).empty());
  CHECK(draft.calls("mul").size() == 2);
}
