// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>
#include "tests/catch.h"

#include "core/base/error.h"

namespace trainer {

TEST_CASE("limits of the system are told from mistakes of the program") {
  using std::errc;
  const auto code = [](const std::exception& problem) { return failure_of(problem).code; };
  CHECK(code(Error(ExitCode::data, "")) == ExitCode::data);
  CHECK(code(std::bad_alloc()) == ExitCode::out_of_memory);
  CHECK(code(std::length_error("vector::reserve")) == ExitCode::out_of_memory);
  CHECK(code(std::system_error(make_error_code(errc::resource_unavailable_try_again))) ==
        ExitCode::out_of_memory);
  CHECK(code(std::filesystem::filesystem_error("", make_error_code(errc::too_many_files_open))) ==
        ExitCode::io);
  CHECK(code(std::filesystem::filesystem_error("", make_error_code(errc::not_enough_memory))) ==
        ExitCode::out_of_memory);
  CHECK(code(std::logic_error("")) == ExitCode::internal);
  const Failure threads =
      failure_of(std::system_error(make_error_code(errc::resource_unavailable_try_again)));
  CHECK(threads.text.starts_with("the system allows no further thread"));
  CHECK(failure_of(std::logic_error("why")).text == "internal error: why");
}

}  // namespace trainer
