// SPDX-License-Identifier: Apache-2.0
#include "core/run/trained_files.h"

#include <fmt/format.h>

#include "tests/catch.h"

#include "core/storage/checkpoint.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using test::error_text;
using test::put;
using test::ScratchDirectory;

fs::path commit_checkpoint(const fs::path& run, int64_t step, bool averages = false) {
  CheckpointWriter writer(run / "checkpoints", step);
  auto add = [&](const char* name, const std::string& text) {
    writer.add(name, [text](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
  };
  add(kModelFile, "weights");
  if (averages) add(kAveragesFile, "averages");
  add(kStateFile, "{}\n");
  return writer.commit();
}

}  // namespace

TEST_CASE("a run's final weights come first, with their averages where it has them") {
  const ScratchDirectory run;
  commit_checkpoint(run.path(), 5);
  put(run / kModelFile, "weights");
  TrainedFiles files = find_trained(run.path());
  CHECK(files.model == run / kModelFile);
  CHECK(files.averages.empty());
  CHECK(files.run == run.path());
  put(run / kAveragesFile, "averages");
  CHECK(find_trained(run.path()).averages == run / kAveragesFile);
  CHECK(find_trained(run.path().string() + "/").model == run / kModelFile);

  put(run / "summary.json", "{\"finished\": true, \"steps\": 5}");
  CHECK(find_trained(run.path()).model == run / kModelFile);
  const fs::path later = commit_checkpoint(run.path(), 6);
  CHECK(find_trained(run.path()).model == later / kModelFile);  // the run continued

  files = find_trained(run / kModelFile);
  CHECK(files.model == run / kModelFile);
  CHECK(files.averages.empty());
  CHECK(files.run.empty());
}

TEST_CASE(
    "of a run that has not ended the newest checkpoint that is whole is taken, and the others are told") {
  const ScratchDirectory run;
  commit_checkpoint(run.path(), 5);
  const fs::path good = commit_checkpoint(run.path(), 10, true), bad = commit_checkpoint(run.path(), 15);
  CHECK(find_trained(run.path()).model == bad / kModelFile);
  put(bad / kModelFile, "weighty");
  TrainedFiles files = find_trained(run.path());
  CHECK(files.model == good / kModelFile);
  CHECK(files.averages == good / kAveragesFile);
  CHECK(files.run == run.path());
  REQUIRE(files.damaged.size() == 1);
  CHECK_THAT(files.damaged[0], ContainsSubstring((bad / kModelFile).string()));

  files = find_trained(good);
  CHECK(files.model == good / kModelFile);
  CHECK(files.run == run.path());
  CHECK_THAT(error_text(ExitCode::data, [&] { find_trained(bad); }), ContainsSubstring("model.safetensors"));
  for (const int64_t step : {5, 10}) fs::remove_all(run / "checkpoints" / fmt::format("step-{:08}", step));
  CHECK_THAT(error_text(ExitCode::data, [&] { find_trained(run.path()); }),
             ContainsSubstring("only damaged ones"));
}

TEST_CASE("what may be intact is not passed over for an older checkpoint") {
  const ScratchDirectory run;
  commit_checkpoint(run.path(), 5);
  const fs::path newest = commit_checkpoint(run.path(), 10);
  fs::rename(newest, run / "elsewhere");
  fs::create_symlink(newest.filename(), newest);  // leads to itself
  CHECK_THAT(error_text(ExitCode::io, [&] { find_trained(run.path()); }),
             ContainsSubstring((newest / kManifestFile).string()));
  fs::remove(newest);
  fs::rename(run / "elsewhere", newest);
  put(newest / kManifestFile, "trainer checkpoint 2\n");
  CHECK_THAT(error_text(ExitCode::data, [&] { find_trained(run.path()); }),
             ContainsSubstring("is of version 2"));
  fs::create_directory(run / "summary.json");  // does not say whether the run continued
  put(run / kModelFile, "weights");
  CHECK_THAT(error_text(ExitCode::data, [&] { find_trained(run.path()); }),
             ContainsSubstring("summary.json"));
}

TEST_CASE("where nothing trained is, that is said") {
  const ScratchDirectory folder;
  CHECK_THAT(error_text(ExitCode::data, [&] { find_trained(folder.path()); }),
             ContainsSubstring("found neither"));
  CHECK_THAT(error_text(ExitCode::data, [&] { find_trained(folder / "nowhere"); }),
             ContainsSubstring("no such file or directory"));
}

}  // namespace trainer
