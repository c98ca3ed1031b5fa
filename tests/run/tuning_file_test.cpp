// SPDX-License-Identifier: Apache-2.0
#include "core/run/tuning_file.h"

#include <fstream>
#include "tests/catch.h"

#include "core/base/error.h"
#include "tests/storage/scratch_directory.h"

using namespace trainer;
using test::ScratchDirectory;

TEST_CASE("a tuning comes back from its file, and a file that is none is refused by name") {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "algorithms.json";
  CHECK(load_tuning(file).fastest.empty());
  const Tuning tuning{{{"conv2d 1x1", "direct"}, {"conv2d 3x3", "winograd"}}};
  save_tuning(tuning, file);
  CHECK(load_tuning(file).fastest == tuning.fastest);
  for (const char* text : {"", "[]", "{\"conv2d\": 3}", "{\"conv2d\""}) {
    std::ofstream(file) << text;
    try {
      load_tuning(file);
      FAIL("accepted " << text);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      CHECK(std::string(error.what()).find("algorithms.json") != std::string::npos);
    }
  }
}
