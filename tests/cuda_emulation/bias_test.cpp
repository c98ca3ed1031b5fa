// SPDX-License-Identifier: Apache-2.0
#include "cuda/bias.h"

#include <algorithm>
#include <cmath>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "tests/cuda_emulation/numbers.h"
#include "tests/cuda_emulation/scheduler.h"

namespace trainer::cuda {
namespace {

std::vector<float> random_values(int64_t count, uint64_t seed) {
  RandomStream random(random_key(seed, "bias"));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = 2 * random.next_uniform() - 1;
  return values;
}

/// Half of the last bit of a number below 2, of the type that stores it.
double rounding(DType dtype) {
  return dtype == DType::f32 ? 1e-6 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

// Below, at and above a warp, eight elements, a block; one column; and more rows than pieces.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1},   {3, 7},  {8, 8},    {31, 33},
                                                          {5, 300}, {70, 1}, {1025, 6}, {97, 40}};

}  // namespace

namespace {

void check_add_bias(const Matrix& shape, DType bias_dtype, bool biased, bool relu) {
  CAPTURE(shape.rows, shape.columns, to_string(shape.dtype), to_string(bias_dtype), biased, relu);
  emulation::set_schedule(relu ? 7 : 1);
  const Numbers y(shape.dtype, random_values(shape.rows * shape.columns, 1)),
      bias(bias_dtype, random_values(shape.columns, 2));
  const std::vector<double> before = y.values(), added = bias.values();
  REQUIRE(launch_add_bias(shape, y.get(), biased ? bias.get() : nullptr, bias_dtype, relu, nullptr) ==
          cudaSuccess);
  expect_no_faults();
  const std::vector<double> after = y.values();
  double worst = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    const double sum = before[i] + (biased ? added[i % static_cast<size_t>(shape.columns)] : 0);
    worst = std::max(worst, std::abs(after[i] - (relu ? std::max(sum, 0.0) : sum)));
  }
  CHECK(worst <= 2 * rounding(shape.dtype));
}

/// Returns the sums, found in this order of threads.
std::vector<double> check_column_sums(const Matrix& shape, const Numbers& y, DType sums_dtype,
                                      uint32_t schedule) {
  CAPTURE(shape.rows, shape.columns, to_string(shape.dtype), to_string(sums_dtype), schedule);
  std::vector<double> expected(static_cast<size_t>(shape.columns));
  const std::vector<double> values = y.values();
  for (size_t i = 0; i < values.size(); ++i) expected[i % expected.size()] += values[i];
  emulation::set_schedule(schedule);
  const Numbers sums(sums_dtype, shape.columns), workspace(DType::f32, column_sums_workspace(shape) / 4);
  REQUIRE(launch_column_sums(shape, y.get(), sums.get(), sums_dtype, workspace.get(), nullptr) ==
          cudaSuccess);
  expect_no_faults();
  std::vector<double> found = sums.values();
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - expected[i]) / std::max(1.0, std::abs(expected[i])));
  CHECK(worst <= 4 * rounding(sums_dtype));
  return found;
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

}  // namespace

TEST_CASE("a bias is added to every row, and relu after it, at odd sizes in all types") {
  for (const auto& [rows, columns] : kShapes) {
    for (const DType dtype : kTypes) {
      check_add_bias({rows, columns, dtype}, DType::f32, true, true);
      check_add_bias({rows, columns, dtype}, dtype, true, false);
      check_add_bias({rows, columns, dtype}, dtype, false, true);
    }
  }
}

TEST_CASE("sums of columns, at odd sizes in all types, are the same bits in any order of threads") {
  for (const auto& [rows, columns] : kShapes) {
    for (const DType dtype : kTypes) {
      const Matrix shape{rows, columns, dtype};
      const Numbers y(dtype, random_values(rows * columns, 3));
      const auto first = check_column_sums(shape, y, DType::f32, 0);
      CHECK(check_column_sums(shape, y, DType::f32, 1) == first);
      CHECK(check_column_sums(shape, y, DType::f32, 7) == first);
      check_column_sums(shape, y, dtype, 8);
    }
  }
}

}  // namespace trainer::cuda
