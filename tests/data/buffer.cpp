// SPDX-License-Identifier: Apache-2.0
#include "core/engine/buffer.h"

#include <cstring>
#include <utility>
#include "tests/catch.h"

#include "core/base/error.h"

namespace trainer {
namespace {

TEST_CASE("host buffers are aligned, writable and movable") {
  const int64_t mebibyte = 1 << 20;
  const int64_t bytes = GENERATE_COPY(0, 1, 63, 4096, mebibyte, 4 * mebibyte, 5 * mebibyte + 3);
  Buffer buffer = allocate_host(bytes);
  const uintptr_t alignment = bytes >= 4 * mebibyte ? 2 * static_cast<uintptr_t>(mebibyte) : 64;
  CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % alignment == 0);
  CHECK(buffer.data() != nullptr);
  CHECK(buffer.bytes() == bytes);
  std::memset(buffer.data(), 1, static_cast<size_t>(bytes));
  const std::byte* address = buffer.data();
  const Buffer moved = std::move(buffer);
  CHECK(moved.data() == address);
}

#ifndef TRAINER_SANITIZED  // a sanitizer's allocator ends the process instead
TEST_CASE("too much host memory is an error of its own") {
  try {
    allocate_host(int64_t{1} << 62);
    FAIL("allocated");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::out_of_memory);
  }
}
#endif

}  // namespace
}  // namespace trainer
