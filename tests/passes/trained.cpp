// SPDX-License-Identifier: Apache-2.0
#include "tests/passes/trained.h"

#include "core/base/rng.h"
#include "tests/catch.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

namespace trainer {

std::map<std::string, std::vector<float>> made_up_inputs(const Program& program) {
  std::map<std::string, std::vector<float>> values;
  RandomStream random(7);
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role != Role::input) continue;
    std::vector<float>& of_tensor = values[tensor.name];
    for (int64_t i = 0; i < numel(tensor.spec.shape); ++i)
      of_tensor.push_back(is_floating(tensor.spec.dtype) ? 1 + random.next_uniform()
                                                         : static_cast<float>(i % 256));
  }
  return values;
}

std::map<std::string, std::vector<double>> trained(const std::string& network, StepSpec spec,
                                                   std::string* text) {
  Program program = forward_program(network_from(network), kRowsOfTrained);
  const auto rule = optimizer_from("{name: sgd, momentum: 0.9}");
  spec.update = {.optimizer = rule.get(), .learning_rates = {0.01f, 0.01f, 0.01f}};
  run_passes(program, rest_of_step(spec));
  if (text != nullptr) *text = to_text(program);
  const Backend reference = make_reference_backend();
  Session session(program, reference);
  session.set(made_up_inputs(program));
  std::vector<const char*> entries{entry_name::kTrainStep};
  if (spec.micro_batches > 1)
    entries = {entry_name::kAccumulateFirst, entry_name::kAccumulateNext, entry_name::kUpdate};
  std::map<std::string, std::vector<double>> all;
  for (int step = 0; step < 3; ++step) {
    for (const char* entry : entries) {
      session.run(entry);
      if (std::string_view(entry) == entry_name::kUpdate) continue;
      all["loss"].push_back(session.output(entry, output_name::kLoss)[0]);
    }
  }
  for (const Tensor& tensor : program.tensors) {
    if (is_persistent(tensor.role) && is_floating(tensor.spec.dtype))
      all[tensor.name] = session.persistent(tensor.name);
  }
  return all;
}

void check_same_as_without_planner(const std::string& network, const StepSpec& spec) {
  StepSpec without = spec;
  without.passes.planner = nullptr;
  std::string text, text_without;
  const auto expected = trained(network, without, &text_without), found = trained(network, spec, &text);
  CHECK(text != text_without);
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, values] : expected) {
    INFO(name);
    CHECK(relative_error(found.at(name), values) <= 1e-9);
  }
}

}  // namespace trainer
