// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/engine/device_description.h"
#include "tests/app/command.h"

namespace trainer {
namespace {

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("the doctor tells what the machine has, with a reason for what is missing") {
  const Workspace workspace;
  const Outcome outcome = run_trainer({"doctor"}, workspace.path());
  CHECK(outcome.code == 0);
  CHECK(outcome.errors.empty());
  CHECK_THAT(outcome.output, Contains("device.type=cpu") && Contains("processor") &&
                                 Contains(" may be used") && Contains("oneDNN"));
  const size_t cuda = outcome.output.find("device.type=cuda\n");
  REQUIRE(cuda != std::string::npos);
  const std::string rest = outcome.output.substr(cuda + 17);
  CHECK_THAT(rest, Contains("\n  GPU ") || Contains("  problem "));
}

TEST_CASE("a GPU's description is written where there is a GPU, else the reason, exit 69") {
  const Workspace workspace;
  const Outcome outcome = run_trainer({"doctor", "--device-json", "gpu.json"}, workspace.path());
  if (outcome.code == 0) {
    CHECK(read_device_description(workspace.read("gpu.json"), "gpu.json").compute_capability >= 80);
  } else {
    CHECK(outcome.code == 69);
    CHECK_THAT(outcome.errors, Contains("there is no GPU to describe: "));
    CHECK(!std::filesystem::exists(workspace.path() / "gpu.json"));
  }
}

}  // namespace trainer
