// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include "tests/catch.h"

#include "core/graph/operation.h"
#include "core/passes/pass.h"
#include "cpu/backend.h"
#include "tests/ops/bf16_cpu.h"
#include "tests/ops/variants.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

std::vector<std::string> parameters_of(const Program& program) {
  std::vector<std::string> names;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter) names.push_back(tensor.name);
  }
  return names;
}

/// d loss / d value by a central difference of fourth order.
double difference(Session& session, double& value) {
  constexpr double kStep = 1e-4;
  const double middle = value;
  auto loss_at = [&](double offset) {
    value = middle + offset;
    session.run(kEntry);
    return session.output(kEntry, output_name::kLoss)[0];
  };
  const double near = loss_at(kStep) - loss_at(-kStep), far = loss_at(2 * kStep) - loss_at(-2 * kStep);
  value = middle;
  return (8 * near - far) / (12 * kStep);
}

/// All of them or, if there are many, this number at random.
std::vector<size_t> some_elements(size_t count, RandomStream random) {
  constexpr size_t kEnough = 24;
  std::vector<size_t> chosen;
  for (size_t i = 0; i < std::min(count, kEnough); ++i) {
    chosen.push_back(count <= kEnough ? i
                                      : static_cast<size_t>(random.next_below(static_cast<int64_t>(count))));
  }
  return chosen;
}

using Outputs = std::vector<std::vector<double>>;

Outputs outputs_of(const Session& session, const Program& program) {
  Outputs all;
  for (const NamedTensor& output : program.find_entry(kEntry)->outputs) {
    all.push_back(session.output(kEntry, output.name));
  }
  return all;
}

bool same_bits(const Outputs& a, const Outputs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
  });
}

/// Outputs of a first run; a second one repeats them, and neither touches the inputs.
Outputs run_twice(const Program& program, const Backend& backend, const Sketch& sketch, bool repeats = true) {
  Session session(program, backend);
  session.set(sketch.values);
  std::vector<std::pair<std::string, std::vector<std::byte>>> inputs;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::input) inputs.emplace_back(tensor.name, session.input_bytes(tensor.name));
  }
  session.run(kEntry);
  const Outputs first = outputs_of(session, program);
  session.run(kEntry);
  if (repeats) CHECK(same_bits(first, outputs_of(session, program)));
  for (const auto& [name, bytes] : inputs) {
    INFO("input " << name);
    CHECK(session.input_bytes(name) == bytes);
  }
  return first;
}

/// What a failure has to tell: which implementations, and which of their algorithms, made the outputs.
std::string choices_of(const Program& program, const Planner& planner) {
  std::string text;
  const Plan plan = make_plan(program, planner);
  for (const PlannedNode& one : plan.entry(kEntry).nodes) {
    text += fmt::format("{}: {} {}\n", label_of(one.node), one.choice.implementation, one.choice.algorithm);
  }
  return text;
}

void compare(const Program& program, const Planner& planner, const Outputs& found, const Outputs& expected,
             const Tolerances& tolerances) {
  const std::vector<NamedTensor>& outputs = program.find_entry(kEntry)->outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    INFO(outputs[i].name);
    const bool gradient = outputs[i].name.starts_with("gradient of ");
    const double error = relative_error(found[i], expected[i]),
                 tolerance = gradient ? tolerances.gradients : tolerances.forward;
    const bool holds = error <= tolerance;
    INFO((holds ? "" : choices_of(program, planner)));
    CHECK(error <= tolerance);
  }
}

/// The position of each element of a tensor.
std::vector<int64_t> places_of(const Plan& plan, TensorId id) {
  const auto index = static_cast<size_t>(id);
  std::vector<int64_t> places;
  for_each_place(plan.placements[index].layout, plan.tensors[index].spec.shape,
                 [&](int64_t place) { places.push_back(place); });
  return places;
}

void check_differences_of(const Sketch& sketch, const Program& program, const Program& with_gradients,
                          uint64_t seed, double tolerance) {
  const Backend backend = make_reference_backend();
  Session forward(program, backend);
  forward.set(sketch.values);
  Session backward(with_gradients, backend);
  backward.set(sketch.values);
  backward.run(kEntry);
  for (const std::string& name : parameters_of(program)) {
    INFO("gradient of " << name);
    const std::vector<double> gradient = backward.output(kEntry, gradient_name(name));
    const TensorId id = forward.id(name);
    auto* stored = static_cast<double*>(forward.executable().address(id));
    const std::vector<int64_t> places = places_of(forward.executable().plan(), id);
    std::vector<double> expected, found;
    for (size_t i : some_elements(gradient.size(), RandomStream(random_key(seed, name)))) {
      found.push_back(gradient[i]);
      expected.push_back(difference(forward, stored[places[i]]));
    }
    CHECK(relative_error(found, expected) <= tolerance);
  }
}

}  // namespace

void check_differences(const Draft& draft, uint64_t seed, const Tolerances& tolerances) {
  INFO("finite differences, seed " << seed);
  Sketch sketch(seed);
  draft(sketch);
  check_differences_of(sketch, sketch.program, differentiated(sketch.program, {}), seed,
                       tolerances.differences);
}

void check_bf16_differences(const Draft& draft, uint64_t seed, const Tolerances& tolerances) {
  INFO("finite differences in mixed precision, seed " << seed);
  Sketch sketch(seed);
  draft(sketch);
  Program forward = sketch.program;
  run_passes(forward, with_bf16({}));
  check_differences_of(sketch, forward, differentiated(sketch.program, with_bf16({})), seed,
                       tolerances.differences);
}

void check_bf16(const Draft& draft, uint64_t seed, double slack) {
  INFO("bf16, seed " << seed);
  Sketch sketch(seed);
  draft(sketch);
  const Backend cpu = make_bf16_cpu_backend(2);
  const Backend exact = make_reference_backend(), rounding = make_reference_backend(true);
  for (const std::vector<Pass>& passes : {variants_of_fusion().front(), variants_of_fusion().back()}) {
    INFO(passes.size() << " passes of fusion");
    const Program program = differentiated(sketch.program, with_bf16(passes), cpu.planner.get());
    const Outputs ideal = run_twice(program, exact, sketch), expected = run_twice(program, rounding, sketch),
                  found = run_twice(program, cpu, sketch);
    const std::vector<NamedTensor>& outputs = program.find_entry(kEntry)->outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      constexpr double kOneRounding = 1.0 / 512;  // half a unit in the last place, relative
      INFO(outputs[i].name);
      CHECK(relative_error(found[i], expected[i]) <=
            slack * std::max(kOneRounding, relative_error(expected[i], ideal[i])));
    }
  }
}

void check_backend(const Backend& backend, const Draft& draft, uint64_t seed, const Tolerances& tolerances) {
  Sketch sketch(seed);
  draft(sketch);
  const Backend reference = make_reference_backend();
  const Program plain = differentiated(sketch.program, {});
  const Outputs expected = run_twice(plain, reference, sketch);
  const std::vector<std::vector<Pass>> variants = variants_of_fusion();
  for (size_t v = 0; v < variants.size(); ++v) {
    const Program program =
        differentiated(sketch.program, variants[v], v > 0 ? backend.planner.get() : nullptr);
    if (v > 0 && to_text(program) == to_text(plain)) continue;  // the passes have not changed anything
    INFO(backend.planner->name() << ", seed " << seed << ", variant of passes " << v);
    const Outputs found = run_twice(program, backend, sketch, tolerances.repeats);
    compare(program, *backend.planner, found, expected, tolerances);
    if (v == 0) continue;
    INFO("the reference with these passes");
    compare(program, *reference.planner, run_twice(program, reference, sketch), expected,
            {.forward = 1e-13, .gradients = 1e-12});
  }
}

void check_cpu(const Draft& draft, uint64_t seed, const Tolerances& tolerances) {
  const auto cpu = make_cpu_backend(2);
  check_backend(cpu, draft, seed, tolerances);
}

void check_narrow(const Backend& backend, const Draft& draft, DType dtype, uint64_t seed,
                  const Tolerances& tolerances) {
  INFO(to_string(dtype) << ", seed " << seed);
  Sketch sketch(seed);
  draft(sketch);
  const Program wide = differentiated(sketch.program, {});
  const Program narrow = stored_as(wide, dtype);
  for (const Tensor& tensor : narrow.tensors) {
    if (tensor.spec.dtype != dtype || !sketch.values.contains(tensor.name)) continue;
    std::vector<float>& values = sketch.values[tensor.name];
    values = through(*backend.planner, values, dtype);
  }
  const Backend reference = make_reference_backend();
  compare(narrow, *backend.planner, run_twice(narrow, backend, sketch), run_twice(wide, reference, sketch),
          tolerances);
}

void check_program(const std::string& name, const Draft& draft, int seeds, const Tolerances& tolerances) {
  INFO(name);
  for (int seed = 1; seed <= seeds; ++seed) {
    check_differences(draft, static_cast<uint64_t>(seed), tolerances);
    check_cpu(draft, static_cast<uint64_t>(seed), tolerances);
  }
  check_bf16_differences(draft, 1, tolerances);
  check_bf16(draft, 1);
}

}  // namespace trainer
