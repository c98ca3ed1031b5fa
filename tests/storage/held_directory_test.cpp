// SPDX-License-Identifier: Apache-2.0
#include "core/storage/held_directory.h"

#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a held directory is known from another one in its place") {
  const test::ScratchDirectory scratch;
  fs::create_directory(scratch / "a");
  const HeldDirectory held(scratch / "a");
  CHECK(held.is_in_place());
  fs::rename(scratch / "a", scratch / "b");
  CHECK_FALSE(held.is_in_place());
  fs::create_directory(scratch / "a");
  CHECK_FALSE(held.is_in_place());
  fs::remove(scratch / "a");
  fs::rename(scratch / "b", scratch / "a");
  CHECK(held.is_in_place());
  fs::remove(scratch / "a");
  fs::create_directory(scratch / "a");
  CHECK_FALSE(held.is_in_place());
  test::error_text(ExitCode::io, [&] { HeldDirectory none(scratch / "none"); });
}

}  // namespace
}  // namespace trainer
