// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launch.h"

#include "tests/catch.h"

#include "core/base/error.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

int launch_shell(const std::string& script) {
  return launch_on_gpus(3, {"sh", "-c", script});
}

}  // namespace

TEST_CASE("ranks on GPUs: a killed one is named, and a failed one gives its exit code") {
  CHECK(test::error_text(ExitCode::peer_lost, [] {
          launch_shell("[ $RANK = 1 ] && kill -9 $$; sleep 0.3; exit 76");
        }) == "rank 1 was ended by signal 9 (Killed); start the same command again");
  CHECK(launch_shell("[ $RANK = 1 ] && exit 71; sleep 0.3; exit 76") == 71);
  CHECK(launch_shell("exit 0") == 0);
}

}  // namespace trainer
