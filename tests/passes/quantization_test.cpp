// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/passes/pass.h"
#include "core/step/copy_entry.h"

namespace trainer {
namespace {

/// y = x + x, with x and y as bytes that represent numbers.
Program quantized_sum() {
  Program program{.tensors = {}, .entries = {Entry("run")}};
  const TensorId x = program.input("x", {{2, 3}, DType::u8});
  Builder build(program, program.entries[0]);
  const TensorId y = build.emit<Binary>({x, x}, Binary::Kind::add);
  program.tensors[static_cast<size_t>(x)].quantization = {.scale = 0.5, .zero_point = 128};
  program.tensors[static_cast<size_t>(y)].quantization = {.scale = 1, .zero_point = -3};
  program.entries[0].outputs = {{"y", y}};
  return program;
}

}  // namespace

TEST_CASE("a scale and a zero point are printed where a tensor has them") {
  CHECK(to_text(quantized_sum()) == R"(input @x: u8[2,3] scale=0.5 zero_point=128

entry run
 forward:
  %1: u8[2,3] scale=1 zero_point=-3 = add(@x, @x)
  output y = %1
)");
}

TEST_CASE("a copy of a tensor has its scale and zero point") {
  Program program = quantized_sum();
  const Entry copy = copy_entry(program, program.entries[0], "again");
  const TensorId y = copy.output("y");
  REQUIRE(y != program.entries[0].output("y"));
  CHECK(program.tensor(y).quantization == Quantization{.scale = 1, .zero_point = -3});
  run_passes(program, {dead_code()});
  CHECK(program.tensor(program.find("x")).quantization == Quantization{.scale = 0.5, .zero_point = 128});
}

}  // namespace trainer
