// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/names.h"
#include "core/optim/optimizer.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

/// Traces of scripts/fixtures/make_training_fixtures.py: weights w0, w1, … after each of some steps.
struct Trace {
  std::string name;
  std::string optimizer;  ///< as a recipe gives it
  float lr;
};

size_t weights_of(const Fixture& fixture, const std::string& name) {
  size_t count = 0;
  while (fixture.has(fmt::format("{}/w{}", name, count))) ++count;
  return count;
}

/// The whole update of a recipe's optimiser, with gradients from the test.
Program traced_program(const Fixture& fixture, const Trace& trace) {
  Program program;
  program.entries.emplace_back(entry_name::kUpdate);
  for (size_t i = 0; i < weights_of(fixture, trace.name); ++i) {
    const TensorSpec spec{fixture.shape(fmt::format("{}/w{}", trace.name, i)), DType::f32};
    const TensorId w = program.persistent(fmt::format("w{}", i), spec, Role::parameter, {});
    program.entries[0].gradients.push_back({w, program.input(fmt::format("g{}", i), spec)});
  }
  append_update(*optimizer_from(trace.optimizer), program, program.entries[0], {trace.lr});
  return program;
}

std::vector<float> part(const std::vector<float>& steps, size_t size, size_t step) {
  const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(step * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

void check_trace(const Fixture& fixture, const Trace& trace, const Backend& backend, double tolerance) {
  Session session(traced_program(fixture, trace), backend);
  const size_t count = weights_of(fixture, trace.name);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<float> initial = fixture.values(fmt::format("{}/w{}", trace.name, i));
    session.set(fmt::format("w{}", i), initial);
  }
  const auto steps = static_cast<size_t>(fixture.shape(trace.name + "/g0")[0]);
  for (size_t step = 0; step < steps; ++step) {
    for (size_t i = 0; i < count; ++i) {
      const std::vector<float> all = fixture.values(fmt::format("{}/g{}", trace.name, i));
      session.set(fmt::format("g{}", i), part(all, all.size() / steps, step));
    }
    session.run(entry_name::kUpdate);
    for (size_t i = 0; i < count; ++i) {
      INFO(fmt::format("{}, step {}, weight {} on {}", trace.name, step, i, backend.planner->name()));
      const std::vector<float> all = fixture.values(fmt::format("{}/weights{}", trace.name, i));
      const std::vector<float> expected = part(all, all.size() / steps, step);
      CHECK(relative_error(session.persistent(fmt::format("w{}", i)),
                           std::vector<double>(expected.begin(), expected.end())) < tolerance);
    }
  }
}

void check_traces(const std::vector<Trace>& traces, double tolerance = 1e-6) {
  const Fixture fixture("more_optimizers");
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  for (const Trace& trace : traces) {
    for (const Backend* backend : {&reference, &cpu}) check_trace(fixture, trace, *backend, tolerance);
  }
}

}  // namespace

TEST_CASE("rmsprop moves as PyTorch's, with and without momentum and centering") {
  check_traces({
      {"rmsprop.0", "rmsprop", 0.01f},
      {"rmsprop.1", "{name: rmsprop, alpha: 0.9, eps: 1e-4, momentum: 0.8, weight_decay: 0.1}", 0.05f},
      {"rmsprop.2", "{name: rmsprop, alpha: 0.8, centered: true}", 0.01f},
      {"rmsprop.3", "{name: rmsprop, momentum: 0.5, centered: true, weight_decay: 0.01}", 0.02f},
  });
}

TEST_CASE("groups of parameters have rates and decays of their own, as PyTorch's have") {
  const std::string groups =
      "weight_decay: 0.1, groups: [{pattern: w0, lr_factor: 10, weight_decay: 0.5}, "
      "{pattern: \"w[01]\", lr_factor: 0.25}]}";
  check_traces({
      {"groups.sgd", "{name: sgd, momentum: 0.9, " + groups, 0.1f},
      {"groups.adamw", "{name: adamw, " + groups, 0.01f},
      {"groups.rmsprop", "{name: rmsprop, " + groups, 0.01f},
      {"groups.muon", "{name: muon, " + groups, 0.01f},
  });
}

TEST_CASE("muon moves matrices of all forms as its definition says, all else as PyTorch's AdamW") {
  check_traces({
      {"muon.0", "muon", 0.001f},
      {"muon.1",
       "{name: muon, weight_decay: 0, momentum: 0.5, nesterov: false, ns_steps: 3, eps: 0.1, "
       "adamw_lr_factor: "
       "0.25, adamw_beta1: 0.5, adamw_beta2: 0.9, adamw_eps: 1e-3}",
       0.02f},
  });
}
