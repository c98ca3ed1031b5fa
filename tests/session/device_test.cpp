// SPDX-License-Identifier: Apache-2.0
#include "core/session/device.h"

#include "tests/catch.h"

#include "tests/host/environment.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kBegin =
    "model: {input: [1, 2, 2], layers: [flatten, {linear: 2}]}\ndata: {format: synthetic}\n";

DeviceChoice chosen(const std::string& type, const ResumePoint* from = nullptr, bool must_keep = true) {
  const auto recipe = Recipe::parse(kBegin + "device: {type: " + type + "}\n", "r.yaml", {});
  return choose_device(recipe->device, from, must_keep);
}

ResumePoint made_on(const std::string& device) {
  ResumePoint point;
  point.state.facts = {{"device", device}, {"threads", "3"}};
  return point;
}

/// With a GPU that Slurm has allotted, or without any.
struct Surroundings {
  explicit Surroundings(bool has_gpu) {
    environment.set("CUDA_VISIBLE_DEVICES", has_gpu ? "0" : "");
    environment.set("SLURM_JOB_GPUS", has_gpu ? "0" : nullptr);
    environment.set("SLURM_STEP_GPUS", nullptr);
  }
  test::Environment environment;
};

}  // namespace

TEST_CASE("device.type=auto is cuda if there is a GPU, else cpu, and says why") {
  const Surroundings none(false);
  CHECK(chosen("auto").type == "cpu");
  CHECK(chosen("auto").reason == "device.type=auto: CUDA_VISIBLE_DEVICES= hides all GPUs");
  CHECK(chosen("cuda").type == "cuda");
  CHECK(chosen("cuda").reason == "device.type=cuda");
  const Surroundings one(true);
  CHECK(chosen("auto").type == "cuda");
  CHECK(chosen("auto").reason == "device.type=auto: SLURM_JOB_GPUS=0");
  CHECK(chosen("cpu").type == "cpu");
}

TEST_CASE("a run that resumes keeps its checkpoint's device, unless the recipe names one") {
  const ResumePoint cpu = made_on("cpu"), cuda = made_on("cuda");
  const Surroundings one(true);
  CHECK(chosen("auto", &cpu).type == "cpu");
  CHECK(chosen("auto", &cpu).threads.value == 3);
  CHECK_THAT(chosen("auto", &cpu).reason, ContainsSubstring("the checkpoint was made on it"));
  CHECK(chosen("cuda", &cpu).type == "cuda");
  CHECK(chosen("auto", &cuda).type == "cuda");
  const Surroundings none(false);
  CHECK(chosen("auto", &cuda).type == "cuda");
  CHECK(chosen("cpu", &cuda).type == "cpu");
}

TEST_CASE("the tuning of other runs does not count for a run that resumes, or must be repeatable") {
  const test::ScratchDirectory scratch;
  const auto tuning = [&](const std::string& more, const ResumePoint* from = nullptr) {
    return earlier_tuning(
        Recipe::parse(kBegin + more, "r.yaml", {"run.output_dir=" + scratch.path().string()}), from);
  };
  CHECK(!tuning("runtime: {autotune: true}\n").keeps_own);
  CHECK(tuning("runtime: {autotune: true}\nrun: {deterministic: true}\n").keeps_own);
  ResumePoint point;
  const std::string always = std::string(kTimedAlways) + "key";
  point.state.algorithms = {{"key", "e1"}, {always, "e3"}};
  CHECK(tuning("runtime: {autotune: true}\n", &point).keeps_own);
  CHECK(tuning("runtime: {autotune: true}\n", &point).fastest.at("key") == "e1");
  CHECK(tuning("runtime: {autotune: true}\n", &point).times_all);
  CHECK(tuning("", &point).fastest == std::map<std::string, std::string>{{always, "e3"}});
  CHECK(!tuning("", &point).times_all);
  CHECK(!tuning("").keeps_own);
  test::put(scratch / kTuningFile, R"({"key": "e2"})");
  CHECK(tuning("runtime: {autotune: true}\n").keeps_own);
}

TEST_CASE("weights from a GPU are evaluated on the CPU if there is no GPU") {
  const ResumePoint cuda = made_on("cuda");
  const Surroundings none(false);
  CHECK(chosen("auto", &cuda, false).type == "cpu");
  const Surroundings one(true);
  CHECK(chosen("auto", &cuda, false).type == "cuda");
}

}  // namespace trainer
