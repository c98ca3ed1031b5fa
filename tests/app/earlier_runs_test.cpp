// SPDX-License-Identifier: Apache-2.0
// Runs that earlier versions have left (scripts/fixtures/make_run_fixtures.py).
#include <map>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/storage/checkpoint.h"
#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using nlohmann::json;

/// The tolerance for another processor's results on 30 samples.
constexpr double kNearly = 1e-3;

/// A copy of a run that was stopped after step 6 of 12. Its metrics include its continuation there.
class EarlierRun {
 public:
  explicit EarlierRun(const std::string& name) {
    const fs::path kept = fs::path(TRAINER_SOURCE_DIR) / "tests/fixtures/runs" / name;
    fs::copy(kept, workspace_.path(), fs::copy_options::recursive);
    before_ = losses("train");
    REQUIRE(before_.size() == 4);
    REQUIRE(losses("validation").size() == 2);
  }

  Outcome run(const std::string& arguments) const {
    return run_shell("\"$TRAINER\" " + arguments + " --config r.yaml", workspace_.path());
  }

  void check_evaluates() const {
    const Outcome evaluated = run("eval --json run.resume=run/checkpoints/step-00000006");
    INFO(evaluated.errors);
    REQUIRE(evaluated.code == 0);
    CHECK_THAT(json::parse(evaluated.output)["loss"].get<double>(),
               WithinRel(losses("validation").at(6), kNearly));
  }

  /// Compares losses of training alone. Batch norm makes the gradient of the bias before it zero but for
  /// rounding, AdamW makes whole steps of it, and running means follow late: the evaluation of step 12
  /// depends on the processor.
  void check_resumes(const std::string& overrides) const {
    const Outcome resumed = run("train " + overrides);
    INFO(resumed.errors);
    REQUIRE(resumed.code == 0);
    CHECK_THAT(resumed.errors, ContainsSubstring("resuming after step 6"));
    const std::map<int, double> after = losses("train");
    REQUIRE(after.size() == 4);
    for (const int step : {9, 12}) {
      INFO("step " << step);
      CHECK_THAT(after.at(step), WithinRel(before_.at(step), kNearly));
    }
    CHECK(losses("validation").count(12) == 1);
    CHECK(verify_checkpoint(workspace_.path() / "run/checkpoints/step-00000012").step == 12);
  }

 private:
  std::map<int, double> losses(const std::string& split) const {
    std::map<int, double> losses;
    for (const std::string& line : lines_of(workspace_.read("run/metrics.jsonl"))) {
      const json record = json::parse(line);
      if (record["split"] == split) losses[record["step"]] = record["loss"];
    }
    return losses;
  }

  Workspace workspace_;
  std::map<int, double> before_;
};

}  // namespace

TEST_CASE(
    "a run of the first version, of 2026-11-20, is evaluated; with the keys that came since it resumes as it "
    "went on") {
  const EarlierRun run("2026-11-20");
  run.check_evaluates();
  const Outcome refused = run.run("");
  CHECK(refused.code == 78);
  CHECK_THAT(refused.errors, ContainsSubstring("data.mask_documents is absent there and false here") &&
                                 ContainsSubstring(" more in data, guards, ") &&
                                 ContainsSubstring("list their keys in run.allow_changes"));
  run.check_resumes(
      "'run.allow_changes=[data, guards, loss, model, optimizer, parallelism, training, validation]'");
}

TEST_CASE("a run of 2026-11-26 is evaluated, and resumes as it went on") {
  const EarlierRun run("2026-11-26");
  run.check_evaluates();
  run.check_resumes("");
}

TEST_CASE(
    "a run on text of 2026-11-26, whose keys had other names, resumes; changes have their present names") {
  const EarlierRun run("2026-11-26-text");
  run.check_evaluates();
  const Outcome refused = run.run("data.mask_documents=false 'model.layers[2].attention.sliding_window=3'");
  CHECK(refused.code == 78);
  CHECK_THAT(refused.errors,
             ContainsSubstring("data.mask_documents is true there and false here") &&
                 ContainsSubstring("model.layers[2].attention.sliding_window is 4 there and 3 here"));
  run.check_resumes("");
}

}  // namespace trainer
