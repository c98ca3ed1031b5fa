// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include "tests/catch.h"

namespace trainer::test {

/// Reads a run's event file with TensorBoard and compares every value with metrics.jsonl.
inline void compare_with_tensorboard(const std::filesystem::path& directory) {
  const std::string source = TRAINER_SOURCE_DIR;
  const std::string python = source + "/build/tensorboard/bin/python";
  INFO("TensorBoard is installed by scripts/setup.sh --tests");
  REQUIRE(std::filesystem::exists(python));
  const std::string line =
      "'" + python + "' '" + source + "/tests/metrics/compare_events.py' '" + directory.string() + "'";
  CHECK(std::system(line.c_str()) == 0);
}

}  // namespace trainer::test
