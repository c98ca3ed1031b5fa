// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <numeric>
#include "tests/catch.h"

#include "core/engine/backend.h"
#include "core/engine/executable.h"

namespace trainer {

/// Numbers that a type holds: among those of i32 some that no float has.
inline std::vector<double> numbers_of(DType dtype) {
  if (dtype == DType::i32) return {16777217, -16777219, std::numeric_limits<int32_t>::max(), 0, 1};
  std::vector<double> numbers(dtype == DType::u8 ? 256 : 129);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}

/// A backend's memory, in buffers of exactly the size, returns the stored values; so do an executable's
/// persistent tensors.
inline void check_transfers(const Backend& backend) {
  INFO(backend.planner->name());
  Program program;
  program.entries.emplace_back("none");
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u8}) {
    INFO(to_string(dtype));
    const std::vector<double> numbers = numbers_of(dtype);
    const StoredType type{.dtype = dtype, .bytes = backend.planner->element_bytes(dtype)};
    const std::vector<std::byte> stored = to_stored(std::span(numbers), type);
    const Buffer memory = backend.device->allocate(static_cast<int64_t>(stored.size()));
    std::vector<std::byte> found(stored.size(), std::byte{1});
    backend.device->copy_to_host(found, memory.data());
    CHECK(found == std::vector<std::byte>(stored.size(), std::byte{0}));
    backend.device->copy_to_device(memory.data(), stored);
    backend.device->copy_to_host(found, memory.data());
    CHECK(from_stored<double>(found, type) == numbers);

    const Shape shape{static_cast<int64_t>(numbers.size())};
    program.persistent(std::string(to_string(dtype)), {shape, dtype}, Role::state,
                       {.kind = Initial::Kind::table, .table = numbers});
  }
  Executable executable(make_plan(program, *backend.planner), *backend.device);
  initialize(executable, 1);
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const std::vector<double> numbers = numbers_of(program.spec(id).dtype);
    INFO("initialised, then written, " << program.tensor(id).name);
    CHECK(executable.read<double>(id) == numbers);
    const std::vector<double> backwards(numbers.rbegin(), numbers.rend());
    executable.write(id, backwards);
    CHECK(executable.read<double>(id) == backwards);
  }
  CHECK(executable.read<int32_t>(executable.tensor("i32"))[4] == 16777217);
  CHECK(executable.read<uint8_t>(executable.tensor("u8"))[0] == 255);
}

}  // namespace trainer
