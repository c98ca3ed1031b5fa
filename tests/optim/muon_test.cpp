// SPDX-License-Identifier: Apache-2.0
#include "core/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/rng.h"
#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/graph/ops/linear.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kMuonRows = 6;
const char* const kMuonNetwork =
    "{input: [3, 4, 4], layers: [flatten, {linear: {out_features: 17, name: wide}}, tanh, {linear: "
    "{out_features: 33, name: tall}}, gelu, {linear: {out_features: 5, name: head}}]}";

std::map<std::string, std::vector<float>> muon_batch(int64_t rows, int step) {
  RandomStream random(random_key(7, "batch"), static_cast<uint32_t>(step));
  std::vector<float> images(static_cast<size_t>(rows * 3 * 4 * 4)), labels, index;
  for (float& value : images) value = 3 * random.next_uniform() - 1.5f;
  for (int64_t n = 0; n < rows; ++n) {
    labels.push_back(static_cast<float>(random.next_below(5)));
    index.push_back(static_cast<float>(n));
  }
  return {{input_name::kImages, images},
          {input_name::kLabels, labels},
          {input_name::kSampleIndex, index},
          {input_name::kWeights, std::vector<float>(static_cast<size_t>(rows), 1.0f / kMuonRows)}};
}

/// As assembled in core/recipe/.
Program muon_program(const std::string& optimizer, int64_t micro_batches, bool scaled) {
  Program program = forward_program(network_from(kMuonNetwork), kMuonRows / micro_batches);
  run_passes(program, {autodiff(scaled), accumulate(micro_batches)});
  append_update(*optimizer_from(optimizer), program, program.entry(updating_entry(program)), {1e-2f});
  run_passes(program, {dead_code()});
  return program;
}

void muon_step(Session& session, int64_t micro_batches, int number) {
  const auto whole = muon_batch(kMuonRows, number);
  if (micro_batches == 1) {
    session.set(whole);
    return session.run(entry_name::kTrainStep);
  }
  for (int64_t part = 0; part < micro_batches; ++part) {
    for (const auto& [name, values] : whole) {
      const auto size = static_cast<std::ptrdiff_t>(values.size()) / micro_batches;
      session.set(name, {values.begin() + part * size, values.begin() + (part + 1) * size});
    }
    session.run(part == 0 ? entry_name::kAccumulateFirst : entry_name::kAccumulateNext);
  }
  session.run(entry_name::kUpdate);
}

/// An operation that passes and optimisers do not know, and that reports nothing about itself.
struct Unheard : Operation {
  std::string_view name() const override { return "unheard"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override { return {{{1}, DType::f32}}; }
};

struct UnheardLoss final : Unheard {
  std::optional<size_t> judged_input() const override { return 1; }
};

/// Weights and moments.
std::map<std::string, std::vector<double>> learnt(const Session& session, const Program& program) {
  std::map<std::string, std::vector<double>> found;
  for (const Tensor& tensor : program.tensors) {
    const bool moves = tensor.role == Role::parameter || tensor.role == Role::optimizer;
    if (moves && tensor.name.find('.') != std::string::npos && numel(tensor.spec.shape) > 1)
      found[tensor.name] = session.persistent(tensor.name);
  }
  return found;
}

}  // namespace

TEST_CASE("the last layer is found by what a loss says of itself, and a table by who reads it") {
  Program program;
  program.entries.emplace_back(entry_name::kTrainStep);
  Builder build(program, program.entries[0]);
  const auto matrix = [&](const char* name) {
    return program.persistent(name, {{3, 3}, DType::f32}, Role::parameter, {});
  };
  const TensorId x = program.input("x", {{2, 3}, DType::f32}), inner = matrix("inner"), last = matrix("last"),
                 other = matrix("other");
  const TensorId h = build.emit<Linear>({x, inner, kNone});
  const TensorId y = build.emit<Linear>({h, last, kNone});
  const TensorId target = build.emit<Linear>({x, other, kNone});
  build.emit<Unheard>({h, target});
  CHECK(tables_and_last_layers(program).empty());
  build.emit<UnheardLoss>({target, y});
  CHECK(tables_and_last_layers(program) == std::set<TensorId>{last});
}

TEST_CASE("muon's step has singular values near 1, times the root of how much longer a matrix is than wide") {
  const Backend reference = make_reference_backend();
  for (const Shape& shape : {Shape{3, 7}, Shape{7, 3}, Shape{1, 9}, Shape{9, 1}, Shape{1, 1}}) {
    INFO(to_string(shape));
    Program program;
    program.entries.emplace_back(entry_name::kUpdate);
    const TensorId w = program.persistent("w", {shape, DType::f32}, Role::parameter, {});
    program.entries[0].gradients.push_back({w, program.input("g", {shape, DType::f32})});
    append_update(*optimizer_from("{name: muon, weight_decay: 0}"), program, program.entries[0], {1.0f});
    Session session(program, reference);
    std::vector<float> g(static_cast<size_t>(numel(shape)));
    RandomStream random(random_key(3, "g"), 0);
    for (float& value : g) value = 1e-3f * (random.next_uniform() - 0.5f);
    session.set("g", g);
    session.run(entry_name::kUpdate);
    double squares = 0;
    for (const double value : session.persistent("w")) squares += value * value;
    const double rank = static_cast<double>(std::min(shape[0], shape[1])),
                 longer = std::max(1.0, static_cast<double>(shape[0]) / static_cast<double>(shape[1]));
    CHECK(squares / (rank * longer) > 0.6 * 0.6);
    CHECK(squares / (rank * longer) < 1.25 * 1.25);
  }
}

TEST_CASE("muon leaves a matrix without a gradient to its decay") {
  const Backend reference = make_reference_backend();
  const auto cpu = make_cpu_backend(2);
  for (const Backend* backend : {&reference, &cpu}) {
    Program program;
    program.entries.emplace_back(entry_name::kUpdate);
    const TensorSpec spec{{5, 3}, DType::f32};
    const TensorId w = program.persistent("w", spec, Role::parameter, {.kind = Initial::Kind::fill, .a = 2});
    program.entries[0].gradients.push_back({w, program.input("g", spec)});
    append_update(*optimizer_from("{name: muon, weight_decay: 0.5}"), program, program.entries[0], {0.5f});
    Session session(program, *backend);
    session.set("g", std::vector<float>(15, 0));
    session.run(entry_name::kUpdate);
    for (const double value : session.persistent("w")) CHECK(value == Approx(1.5));
  }
}

TEST_CASE("micro-batches move matrices as one batch does, limited gradients too") {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const std::string limit : {"", ", clip_norm: 0.05", ", clip_value: 0.002"}) {
    const std::string optimizer = "{name: muon, adamw_eps: 1e-3" + limit + "}";
    const Program whole = muon_program(optimizer, 1, false), split = muon_program(optimizer, 3, false);
    for (const auto& [backend, tolerance] : {std::pair{&reference, 1e-6}, std::pair{&cpu, 1e-4}}) {
      Session one(whole, reference), parts(split, *backend);
      for (int number = 0; number < 3; ++number) {
        muon_step(one, 1, number);
        muon_step(parts, 3, number);
      }
      const auto expected = learnt(one, whole), found = learnt(parts, split);
      for (const auto& [name, values] : expected) {
        INFO(optimizer << " " << name << " on " << backend->planner->name());
        CHECK(relative_error(found.at(name), values) < tolerance);
      }
    }
  }
}

TEST_CASE(
    "the loss's scale changes nothing, and a step that overflows leaves weights and momentum as they were") {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const std::string limit : {"", ", clip_norm: 0.05"}) {
    const std::string optimizer = "{name: muon, adamw_eps: 1e-3" + limit + "}";
    const Program scaled = muon_program(optimizer, 1, true), plain = muon_program(optimizer, 1, false);
    for (const Backend* backend : {&reference, &cpu}) {
      INFO(optimizer << " on " << backend->planner->name());
      Session session(scaled, *backend), expected(plain, reference);
      for (Session* each : {&session, &expected}) muon_step(*each, 1, 0);
      const auto before = learnt(session, scaled);
      auto bad = muon_batch(kMuonRows, 1);
      bad[input_name::kImages][3] = std::numeric_limits<float>::infinity();
      session.set(bad);
      session.run(entry_name::kTrainStep);
      CHECK(learnt(session, scaled) == before);
      for (Session* each : {&session, &expected}) muon_step(*each, 1, 2);
      const auto after = learnt(session, scaled);
      for (const auto& [name, values] : learnt(expected, plain)) {
        INFO(name);
        CHECK(after.at(name) != before.at(name));
        CHECK(relative_error(after.at(name), values) < 1e-4);
      }
      CHECK(session.persistent("counter.updates")[0] == 2);
    }
  }
}
