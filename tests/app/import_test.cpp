// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

const std::string kForeign = std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/foreign/";

}  // namespace

TEST_CASE("import writes a safetensors file with the tensors of a checkpoint") {
  const Workspace workspace;
  const Outcome outcome =
      run_trainer({"import", kForeign + "state.pth", "--out", "w.safetensors", "--rename", "fc.=head."},
                  workspace.path());
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.output.find("w.safetensors: 12 tensors, ") == 0);
  const SafetensorsFile file(workspace.path() / "w.safetensors");
  CHECK(file.read_floats(*file.find("head.weight")) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(file.read_floats(*file.find("half")) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(file.read_floats(*file.find("double")) == std::vector<float>{0, 1, 2});
}

TEST_CASE("import --list prints tensors and writes nothing; a refused file leaves none") {
  const Workspace workspace;
  const Outcome list = run_trainer({"import", kForeign + "checkpoint.pth", "--list"}, workspace.path());
  CHECK(list.code == 0);
  CHECK(list.output.find("num_batches_tracked  I64") != std::string::npos);
  CHECK(list.errors.find("3 entries that are no weights were ignored") != std::string::npos);
  CHECK(run_trainer({"import", kForeign + "names.pth", "--out", "w"}, workspace.path()).code == 65);
  CHECK(run_trainer({"import", kForeign + "state.pth"}, workspace.path()).code == 64);
  CHECK(run_trainer({"import", kForeign + "state.pth", "--out", "w", "--rename", "x=y"}, workspace.path())
            .code == 64);
  CHECK(run_trainer({"import", "absent.pth", "--list"}, workspace.path()).code == 74);
  CHECK(run_trainer({"import", kForeign + "state.pth", "--out", "/dev/full"}, workspace.path()).code == 74);
  const Outcome full =
      run_shell("ulimit -f 0; \"$TRAINER\" import " + kForeign + "state.pth --out w", workspace.path());
  CHECK(full.code == 74);
  CHECK(std::filesystem::is_empty(workspace.path()));
}

}  // namespace trainer
