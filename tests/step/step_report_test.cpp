// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_report.h"

#include <set>
#include "tests/catch.h"

#include "core/graph/names.h"

namespace trainer {

TEST_CASE("step report: every output has a name of its own") {
  std::set<std::string> names;
  for (const StepOutput& row : step_outputs()) names.insert(row.name);
  CHECK(names.size() == step_outputs().size());
}

TEST_CASE("step report: a program's outputs become fields, and what it does not put out is absent") {
  Program program;
  program.entries.emplace_back(entry_name::kTrainStep);
  Builder build(program, program.entries[0]);
  const TensorId number = program.input("number", {{1}, DType::f32});
  const TensorId count = program.input("count", {{1}, DType::i32});
  const TensorId pair = program.input("pair", {{2}, DType::f32});
  CHECK_FALSE(puts_out(build.entry(), &StepReport::grad_norm));
  put_out(build, &StepReport::grad_norm, number);
  put_out(build, &StepReport::guard_reason, count);
  put_out(build, &StepReport::lr, number);
  CHECK(puts_out(build.entry(), &StepReport::grad_norm));
  CHECK_THROWS_AS(put_out(build, &StepReport::loss_scale, count), std::logic_error);
  CHECK_THROWS_AS(put_out(build, &StepReport::loss_scale, pair), std::logic_error);
  CHECK_THROWS_AS(put_out(build, &StepReport::overflows, number), std::logic_error);

  std::vector<std::string> names = {"of a test"};
  for (const NamedTensor& output : build.entry().outputs) names.push_back(output.name);
  CHECK(names == std::vector<std::string>{"of a test", "grad_norm", "guard_reason", "lr"});
  StepReport report{.step = 7, .loss = 3};
  StepReader(names).read({-1, 2.5, 4, 0.125}, report);
  CHECK(report.step == 7);
  CHECK(report.loss == 3);
  CHECK(report.grad_norm == 2.5);
  CHECK(report.reason() == SkipReason::spike);
  CHECK(report.lr == 0.125);
  CHECK_FALSE(report.loss_scale);
  CHECK_FALSE(report.overflows);
  CHECK_FALSE(report.skipped());
  report.overflows = 2;
  CHECK(report.skipped() == 2);
  report.guard_skipped = 3;
  CHECK(report.skipped() == 5);
}

}  // namespace trainer
